/* Open vSwitch's classifier, which can be updated, over a rule set and its trace, as JSON: lookups per second of CPU time, and lines
 * taken out and put back. Built against Open vSwitch's own library, and called, by ovs_classifier.py.
 *
 *   ovs_classifier RULES TRACE SECONDS REPEATS
 *
 * RULES and TRACE as testdata/rules/README.md describes them, not compressed. One classifier for each VID, with the segments and
 * prefix tries that ofproto gives its tables. It has no ranges: a line's ports become as many rules as they have prefixes.
 * Lookups ask for the rule alone, which follows priorities, and with the bits that were looked at, which follows tries and stages
 * and is what Open vSwitch does for a packet. Answers are checked, the trace from its start, for as long as CHECKED_SECONDS.
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
/* Lookups and updates between two looks at the clock. */
#define AT_ONCE 16
/* A prefix each for the bits of one port but the first and the last, at both ends of a range. */
#define MOST_PREFIXES 30
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
	size_t count;
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

/* All lines in one transaction, best first. */
static struct table *built(const struct lines *lines)
{
	size_t rules = 0;
	for (uint32_t i = 0; i < lines->count; i++)
		rules += rules_of(lines->kind, &lines->line[i]);
	if (rules > MOST_RULES)
		fail("ranges make %zu rules of the lines", rules);
	struct table *table = xzalloc(sizeof *table);
	table->place = xcalloc(lines->count, sizeof *table->place);
	table->rules = xcalloc(rules, sizeof *table->rules);
	table->line_of = xcalloc(rules, sizeof *table->line_of);
	uint32_t *order = ranked(lines);
	for (uint32_t rank = 0; rank < lines->count; rank++)
		add_line(table, lines->kind, &lines->line[order[rank]], lines->count - rank, order[rank]);
	for (uint32_t i = 0; i < lines->count; i++)
		classifier_defer(of_vid(table, lines->line[i].value[VID]));
	for (uint32_t rank = 0; rank < lines->count; rank++)
		insert(table, of_vid(table, lines->line[order[rank]].value[VID]), table->place[order[rank]]);
	for (uint32_t vid = 0; vid < VIDS; vid++)
		if (table->of_vid[vid])
			classifier_publish(table->of_vid[vid]);
	free(order);
	ovsrcu_quiesce();
	return table;
}

static int64_t find(const struct table *table, enum kind kind, const struct question *question, struct flow_wildcards *looked_at)
{
	/* What a kind does not have stays zero. */
	static struct flow flow;
	fill(&flow, kind, question->value);
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

static double rate(const struct table *table, enum kind kind, const struct trace *trace, struct flow_wildcards *looked_at, double least)
{
	/* Where the last left off: of what is slow each sees another part of the trace. */
	static size_t at;
	double start = seconds(CLOCK_THREAD_CPUTIME_ID), passed;
	size_t done = 0;
	volatile int64_t sink = 0;
	do {
		for (int i = 0; i < AT_ONCE; i++) {
			sink ^= find(table, kind, &trace->question[at], looked_at);
			at = at + 1 < trace->count ? at + 1 : 0;
		}
		done += AT_ONCE;
		passed = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (passed < least);
	return done / passed / 1e6;
}

/* Lines taken out and put back, scattered over the set, each change published; millions a second, one counted for each line out
 * and one for each in. */
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
			take_out(table, cls, table->place[line]);
			insert(table, cls, table->place[line]);
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
	size_t before = allocated();
	double start = seconds(CLOCK_MONOTONIC);
	struct table *table = built(&lines);
	double build = seconds(CLOCK_MONOTONIC) - start;
	size_t bytes = allocated() - before;
	struct flow_wildcards wildcards;
	flow_wildcards_init_catchall(&wildcards);
	struct {
		const char *name;
		struct flow_wildcards *looked_at;
	} ways[] = { { "rule", NULL }, { "rule and bits", &wildcards } };
	size_t fewest = trace.count;
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++)
		fewest = MIN(fewest, checked(table, lines.kind, &trace, ways[w].looked_at));
	printf("{\"lines\": %" PRIu32 ", \"rules\": %zu, \"build_s\": %.4f, \"bytes\": %zu, \"lookups\": %zu, \"checked\": %zu, \"mlps_per_cpu_s\": {",
	       lines.count, table->count, build, bytes, trace.count, fewest);
	for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
		printf("%s\"%s\": [", w ? ", " : "", ways[w].name);
		for (int i = 0; i < repeats; i++)
			printf("%s%.5f", i ? ", " : "", rate(table, lines.kind, &trace, ways[w].looked_at, least));
		printf("]");
	}
	printf("}, \"updates_m_per_cpu_s\": [");
	for (int i = 0; i < repeats; i++)
		printf("%s%.5f", i ? ", " : "", updates(table, &lines, least));
	checked(table, lines.kind, &trace, NULL);
	printf("]}\n");
	return 0;
}
