/* Open vSwitch's classifier, which can be updated, over a rule set and its trace, as JSON: lookups per second of CPU time, and lines
 * taken out and put back. Built against Open vSwitch's own library, and called, by ovs_classifier.py.
 *
 *   ovs_classifier RULES TRACE SECONDS REPEATS
 *
 * RULES and TRACE as testdata/rules/README.md describes them, not compressed. One classifier for each VID, with the segments and
 * prefix tries that ofproto gives its tables. It has no ranges: a line's ports become as many rules as they have prefixes.
 * Lookups ask for the rule alone, which follows priorities, and with the bits that were looked at, which follows tries and stages
 * and is what Open vSwitch does for a packet; both once for each line of standard input, and updates when it ends. Answers are checked, the trace from its start, for as long as CHECKED_SECONDS.
 * Priorities are the set's own, but for rules of one priority that some header fits both: Open vSwitch does not say which wins, so the
 * one that does is put above the other. More priorities than needed would let it stop later.
 */
#include <config.h>
#undef NDEBUG

#include "classifier.h"
#include "flow.h"
#include "openvswitch/match.h"
#include "openvswitch/meta-flow.h"
#include "ovs-rcu.h"
#include "util.h"

#include "sets.h"

#include <malloc.h>

#define VIDS 65536
#define CHECKED_SECONDS 5.0
/* Updates between two looks at the clock, and lookups at first: a look takes as long as some lookups do. */
#define AT_ONCE 16
#define AT_ONCE_AT_MOST 65536
#define LONG_ENOUGH 0.001
/* Lookups of what is slow, for a figure, within some times the seconds asked for. */
#define LOOKUPS 4096
#define TIMES 4
#define BUILDS 3
/* A prefix each for the bits of a port but the first, at both ends of a range. */
#define MOST_PREFIXES 30
/* Rules of one priority that stand one above another. */
#define LEVELS 16384
/* What memory and a reader's patience have room for. */
#define MOST_RULES 6000000

struct prefix {
	uint16_t value, mask;
};

/* A line's rules lie one after the other. */
struct place {
	uint32_t first, count;
};

struct table {
	struct classifier *of_vid[VIDS];
	/* Of each line; `rules` has them in the order of lines' ranks. */
	struct place *place;
	struct cls_rule *rules;
	uint32_t *line_of;
	size_t count, room;
};

static size_t allocated(void)
{
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
}

static void fill(struct flow *flow, enum kind kind, const uint64_t *v)
{
	if (kind == FIVE) {
		flow->nw_src = htonl(v[0]);
		flow->nw_dst = htonl(v[1]);
		flow->tp_src = htons(v[2]);
		flow->tp_dst = htons(v[3]);
		flow->nw_proto = v[4];
		return;
	}
	flow->in_port.odp_port = u32_to_odp(v[0]);
	eth_addr_from_uint64(v[1], &flow->dl_src);
	eth_addr_from_uint64(v[2], &flow->dl_dst);
	flow->dl_type = htons(v[3]);
	/* Sixteen bits of dl_vlan beside a priority: more than a TCI has room for, so the ID stands in the word's other half. */
	flow->vlans[0].tpid = htons(v[4]);
	flow->vlans[0].tci = htons(v[5]);
	flow->nw_src = htonl(v[6]);
	flow->nw_dst = htonl(v[7]);
	flow->nw_proto = v[8];
	flow->nw_tos = v[9];
	flow->tp_src = htons(v[10]);
	flow->tp_dst = htons(v[11]);
}

static int prefixes(uint32_t from, uint32_t to, struct prefix *out)
{
	int count = 0;
	while (from <= to) {
		uint32_t size = from ? from & -from : 65536;
		while (from + size - 1 > to)
			size /= 2;
		out[count].value = from;
		out[count++].mask = ~(size - 1);
		from += size;
	}
	return count;
}

static size_t rules_of(enum kind kind, const struct line *line)
{
	struct prefix out[MOST_PREFIXES];
	return kind == TWELVE ? 1 : (size_t)prefixes(line->value[2], line->mask[2], out) * prefixes(line->value[3], line->mask[3], out);
}

static uint64_t bits(uint64_t length)
{
	return length ? UINT32_MAX << (32 - length) & UINT32_MAX : 0;
}

static void add(struct table *table, enum kind kind, const uint64_t *value, const uint64_t *mask, int priority, uint32_t line)
{
	struct match match;
	memset(&match, 0, sizeof match);
	fill(&match.wc.masks, kind, mask);
	uint64_t masked[VALUES];
	for (int i = 0; i < VALUES; i++)
		masked[i] = value[i] & mask[i];
	fill(&match.flow, kind, masked);
	table->line_of[table->count] = line;
	cls_rule_init(&table->rules[table->count++], &match, priority);
}

static void add_line(struct table *table, enum kind kind, const struct line *line, int priority, uint32_t number)
{
	table->place[number].first = table->count;
	if (kind == TWELVE) {
		add(table, kind, line->value, line->mask, priority, number);
	} else {
		struct prefix a[MOST_PREFIXES], b[MOST_PREFIXES];
		int as = prefixes(line->value[2], line->mask[2], a), bs = prefixes(line->value[3], line->mask[3], b);
		for (int i = 0; i < as; i++)
			for (int j = 0; j < bs; j++) {
				uint64_t value[VALUES] = { line->value[0], line->value[1], a[i].value, b[j].value, line->value[4] };
				uint64_t mask[VALUES] = { bits(line->mask[0]), bits(line->mask[1]), a[i].mask, b[j].mask, line->mask[4] };
				add(table, kind, value, mask, priority, number);
			}
	}
	table->place[number].count = table->count - table->place[number].first;
}

static struct classifier *of_vid(struct table *table, uint64_t vid)
{
	if (vid >= VIDS)
		fail("VID %" PRIu64 " has more than 16 bits", vid);
	if (!table->of_vid[vid]) {
		static const enum mf_field_id tries[] = { MFF_IPV4_DST, MFF_IPV4_SRC };
		table->of_vid[vid] = xmalloc(sizeof **table->of_vid);
		classifier_init(table->of_vid[vid], flow_segment_u64s);
		classifier_set_prefix_fields(table->of_vid[vid], tries, ARRAY_SIZE(tries));
		classifier_publish(table->of_vid[vid]);
	}
	return table->of_vid[vid];
}

static void insert(struct table *table, struct classifier *in, struct place place)
{
	for (uint32_t i = 0; i < place.count; i++)
		classifier_insert(in, &table->rules[place.first + i], OVS_VERSION_MIN, NULL, 0);
}

static void take_out(struct table *table, struct classifier *of, struct place place)
{
	for (uint32_t i = 0; i < place.count; i++)
		classifier_remove_assert(of, &table->rules[place.first + i]);
}

static bool meet(const struct line *a, const struct line *b)
{
	for (int i = 0; i < VALUES; i++)
		if ((a->value[i] ^ b->value[i]) & a->mask[i] & b->mask[i])
			return false;
	return true;
}

/* Of each line. Five-tuples are in the order of their lines. */
static int *priorities(const struct lines *lines, const uint32_t *order)
{
	int *all = xcalloc(lines->count, sizeof *all);
	if (lines->kind == FIVE) {
		for (uint32_t i = 0; i < lines->count; i++)
			all[i] = lines->count - i;
		return all;
	}
	int *level = xcalloc(lines->count, sizeof *level);
	for (uint32_t i = 0, start = 0; i < lines->count; i++) {
		const struct line *line = &lines->line[order[i]];
		if (line->priority >= INT_MAX / LEVELS)
			fail("priority %" PRIu32 ": more than there is room for", line->priority);
		if (lines->line[order[start]].priority != line->priority)
			start = i;
		for (uint32_t above = start; above < i; above++)
			if (level[order[above]] >= level[order[i]] && meet(&lines->line[order[above]], line))
				level[order[i]] = level[order[above]] + 1;
		if (level[order[i]] >= LEVELS)
			fail("more than %d rules of one priority that meet", LEVELS);
		all[order[i]] = line->priority * LEVELS + LEVELS - 1 - level[order[i]];
	}
	free(level);
	return all;
}

/* Room for all rules, which is the harness's. */
static void make_room(struct table *table, const struct lines *lines)
{
	for (uint32_t i = 0; i < lines->count; i++)
		table->room += rules_of(lines->kind, &lines->line[i]);
	if (table->room > MOST_RULES)
		fail("ranges make %zu rules of the lines", table->room);
	table->place = xcalloc(lines->count, sizeof *table->place);
	table->line_of = xcalloc(table->room, sizeof *table->line_of);
}

/* All lines in one transaction, best first. */
static void build(struct table *table, const struct lines *lines, const uint32_t *order, const int *priority)
{
	memset(table->of_vid, 0, sizeof table->of_vid);
	table->count = 0;
	table->rules = xcalloc(table->room, sizeof *table->rules);
	for (uint32_t rank = 0; rank < lines->count; rank++)
		add_line(table, lines->kind, &lines->line[order[rank]], priority[order[rank]], order[rank]);
	for (uint32_t i = 0; i < lines->count; i++)
		classifier_defer(of_vid(table, lines->line[i].value[VID]));
	for (uint32_t rank = 0; rank < lines->count; rank++)
		insert(table, of_vid(table, lines->line[order[rank]].value[VID]), table->place[order[rank]]);
	for (uint32_t vid = 0; vid < VIDS; vid++)
		if (table->of_vid[vid])
			classifier_publish(table->of_vid[vid]);
	ovsrcu_quiesce();
}

static int64_t find(const struct table *table, enum kind kind, const struct question *question, struct flow_wildcards *looked_at)
{
	/* What a kind does not have stays zero. */
	static struct flow flow;
	fill(&flow, kind, question->value);
	/* Tries are asked of IPv4 alone. */
	if (kind == FIVE)
		flow.dl_type = htons(ETH_TYPE_IP);
	/* As for each packet: what was looked at before lets tries skip more. */
	if (looked_at)
		flow_wildcards_init_catchall(looked_at);
	const struct classifier *cls = question->value[VID] < VIDS ? table->of_vid[question->value[VID]] : NULL;
	const struct cls_rule *rule = cls ? classifier_lookup(cls, OVS_VERSION_MIN, &flow, looked_at) : NULL;
	return rule ? (int64_t)table->line_of[rule - table->rules] : -1;
}

static size_t checked(const struct table *table, enum kind kind, const struct trace *trace, struct flow_wildcards *looked_at)
{
	double start = seconds(CLOCK_THREAD_CPUTIME_ID);
	size_t i = 0;
	for (; i < trace->count && (i % AT_ONCE || seconds(CLOCK_THREAD_CPUTIME_ID) - start < CHECKED_SECONDS); i++) {
		int64_t found = find(table, kind, &trace->question[i], looked_at);
		if (found != trace->question[i].expected)
			fail("lookup %zu: line %" PRId64 ", the trace's is %" PRId64, i, found, trace->question[i].expected);
	}
	return i;
}

static struct measured rate(const struct table *table, enum kind kind, const struct trace *trace, struct flow_wildcards *looked_at, double least)
{
	/* Where the last left off: of what is slow each sees another part of the trace. */
	static size_t at;
	double start = seconds(CLOCK_THREAD_CPUTIME_ID), passed = 0, before;
	size_t done = 0, at_once = AT_ONCE;
	volatile int64_t sink = 0;
	do {
		for (size_t i = 0; i < at_once; i++) {
			sink ^= find(table, kind, &trace->question[at], looked_at);
			at = at + 1 < trace->count ? at + 1 : 0;
		}
		done += at_once;
		before = passed;
		passed = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
		if (passed - before < LONG_ENOUGH && at_once < AT_ONCE_AT_MOST)
			at_once *= 2;
	} while (passed < least || (done < LOOKUPS && passed < TIMES * least));
	return (struct measured){ done, passed };
}

/* Lines taken out and put back, scattered over the set, all rules of a line published at once; millions a second, one counted for each
 * line out and one for each in. */
static double updates(struct table *table, const struct lines *lines, double least)
{
	double start = seconds(CLOCK_THREAD_CPUTIME_ID), passed;
	size_t done = 0;
	uint64_t state = 1;
	do {
		for (int i = 0; i < AT_ONCE; i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			uint32_t line = (state >> 33) % lines->count;
			struct classifier *cls = table->of_vid[lines->line[line].value[VID]];
			classifier_defer(cls);
			take_out(table, cls, table->place[line]);
			classifier_publish(cls);
			classifier_defer(cls);
			insert(table, cls, table->place[line]);
			classifier_publish(cls);
		}
		done += 2 * AT_ONCE;
		ovsrcu_quiesce();
		passed = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (passed < least);
	return done / passed / 1e6;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		fail("usage: ovs_classifier RULES TRACE SECONDS REPEATS");
	set_program_name(argv[0]);
	struct lines lines = read_rules(argv[1]);
	struct trace trace = read_trace(argv[2], lines.kind);
	double least = atof(argv[3]);
	int repeats = atoi(argv[4]);
	static struct table table;
	uint32_t *order = ranked(&lines);
	int *priority = priorities(&lines, order);
	make_room(&table, &lines);
	double built[BUILDS];
	size_t bytes = 0;
	/* Those before the last are left where they are. */
	for (int i = 0; i < BUILDS; i++) {
		size_t before = allocated();
		double start = seconds(CLOCK_THREAD_CPUTIME_ID);
		build(&table, &lines, order, priority);
		built[i] = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
		bytes = allocated() - before;
	}
	struct flow_wildcards wildcards;
	struct {
		const char *name;
		struct flow_wildcards *looked_at;
	} ways[] = { { "rule", NULL }, { "rule and bits", &wildcards } };
	size_t fewest = trace.count;
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++)
		fewest = MIN(fewest, checked(&table, lines.kind, &trace, ways[w].looked_at));
	printf("{\"lines\": %" PRIu32 ", \"rules\": %zu, \"build_s\": [%.4f, %.4f, %.4f], \"bytes\": %zu, \"lookups\": %zu, \"checked\": %zu}\n",
	       lines.count, table.count, built[0], built[1], built[2], bytes, trace.count, fewest);
	while (next_turn()) {
		for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
			/* Whoever had the processor before has left nothing in its caches. */
			rate(&table, lines.kind, &trace, ways[w].looked_at, least / 10);
			print_measured(w ? ", " : "{", ways[w].name, rate(&table, lines.kind, &trace, ways[w].looked_at, least));
		}
		printf("}\n");
	}
	printf("{\"updates_m_per_cpu_s\": [");
	for (int i = 0; i < repeats; i++)
		printf("%s%.5f", i ? ", " : "", updates(&table, &lines, least));
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++)
		checked(&table, lines.kind, &trace, ways[w].looked_at);
	printf("]}\n");
	return 0;
}
