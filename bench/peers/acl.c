/* DPDK's rte_acl over a rule set and its trace: lookups per second of CPU time, as JSON. Built and called by lookups.py.
 *
 *   acl RULES TRACE SECONDS EAL-ARGUMENTS...
 *
 * RULES and TRACE as testdata/rules/README.md describes them, not compressed. Bursts of 32, one category, each of the
 * library's algorithms that the processor has, once for each line of standard input; every answer is checked against the trace's.
 */
#include "sets.h"

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>

#define BURST 32
#define KEY 40

/* One field of rte_acl: which of a line's values it is, from which bit on, and where it lies in a key. Fields after the
 * first, which has one byte, lie in groups of four bytes. */
struct part {
	int value, shift;
	struct rte_acl_field_def def;
};

#define PART(value, shift, type, size, field, group, offset) \
	{ value, shift, { RTE_ACL_FIELD_TYPE_##type, size, field, group, offset } }

/* A line's values: source and destination address, source and destination port, protocol. */
static const struct part five[] = {
	PART(4, 0, BITMASK, 1, 0, 0, 0), PART(0, 0, MASK, 4, 1, 1, 4),	 PART(1, 0, MASK, 4, 2, 2, 8),
	PART(2, 0, RANGE, 2, 3, 3, 12),	 PART(3, 0, RANGE, 2, 4, 3, 14),
};

/* in_port, dl_src, dl_dst, dl_type, dl_vlan, dl_pcp, nw_src, nw_dst, nw_proto, nw_tos, tp_src, tp_dst, and the VID. */
static const struct part twelve[] = {
	PART(8, 0, BITMASK, 1, 0, 0, 0),    PART(0, 0, BITMASK, 4, 1, 1, 4),	PART(1, 16, BITMASK, 4, 2, 2, 8),
	PART(1, 0, BITMASK, 2, 3, 3, 12),   PART(3, 0, BITMASK, 2, 4, 3, 14),	PART(2, 16, BITMASK, 4, 5, 4, 16),
	PART(2, 0, BITMASK, 2, 6, 5, 20),   PART(4, 0, BITMASK, 2, 7, 5, 22),	PART(6, 0, BITMASK, 4, 8, 6, 24),
	PART(7, 0, BITMASK, 4, 9, 7, 28),   PART(10, 0, BITMASK, 2, 10, 8, 32), PART(11, 0, BITMASK, 2, 11, 8, 34),
	PART(12, 0, BITMASK, 2, 12, 9, 36), PART(5, 0, BITMASK, 1, 13, 9, 38),	PART(9, 0, BITMASK, 1, 14, 9, 39),
};

#define MOST_FIELDS 15
RTE_ACL_RULE_DEF(rule, MOST_FIELDS);

struct fields {
	const struct part *parts;
	uint32_t count;
};
static const struct fields five_tuple = { five, 5 }, twelve_tuple = { twelve, 15 };

struct lookup {
	uint8_t key[KEY];
	int64_t expected;
};

static size_t allocated(void)
{
	size_t sum = 0;
	for (int socket = 0; socket < RTE_MAX_NUMA_NODES; socket++) {
		struct rte_malloc_socket_stats stats;
		if (rte_malloc_get_socket_stats(socket, &stats) == 0)
			sum += stats.heap_allocsz_bytes;
	}
	return sum;
}

/* ---- keys ---- */

static void put(const struct part *part, const uint64_t *values, uint8_t *key)
{
	uint64_t value = values[part->value] >> part->shift;
	for (int i = 0; i < part->def.size; i++)
		key[part->def.offset + i] = value >> 8 * (part->def.size - 1 - i);
}

static struct lookup *keys(const struct trace *trace, const struct fields *fields)
{
	struct lookup *all = calloc(trace->count, sizeof *all);
	if (!all)
		fail("no memory for %zu lookups", trace->count);
	for (size_t i = 0; i < trace->count; i++) {
		all[i].expected = trace->question[i].expected;
		for (uint32_t f = 0; f < fields->count; f++)
			put(&fields->parts[f], trace->question[i].value, all[i].key);
	}
	return all;
}

/* ---- the library ---- */

static struct rte_acl_ctx *built(const struct lines *lines, const struct fields *fields)
{
	uint32_t *order = ranked(lines), count = lines->count;
	struct rte_acl_param param = { "weir", SOCKET_ID_ANY, RTE_ACL_RULE_SZ(fields->count), count };
	struct rte_acl_ctx *acl = rte_acl_create(&param);
	if (!acl)
		fail("rte_acl_create: %s", rte_strerror(rte_errno));
	struct rte_acl_config config = { .num_categories = 1, .num_fields = fields->count };
	for (uint32_t f = 0; f < fields->count; f++)
		config.defs[f] = fields->parts[f].def;
	for (uint32_t rank = 0; rank < count; rank++) {
		const struct line *line = &lines->line[order[rank]];
		struct rule rule = { .data = { 1, RTE_ACL_MAX_PRIORITY - rank, order[rank] + 1 } };
		for (uint32_t f = 0; f < fields->count; f++) {
			const struct part *part = &fields->parts[f];
			uint64_t bits = part->def.size == 4 ? UINT32_MAX : (1u << 8 * part->def.size) - 1;
			uint64_t value = line->value[part->value] >> part->shift & bits;
			uint64_t mask = line->mask[part->value] >> part->shift & bits;
			rule.field[f].value.u64 = part->def.type == RTE_ACL_FIELD_TYPE_BITMASK ? value & mask : value;
			rule.field[f].mask_range.u64 = mask;
		}
		int error = rte_acl_add_rules(acl, (const struct rte_acl_rule *)&rule, 1);
		if (error)
			fail("rte_acl_add_rules: %s", rte_strerror(-error));
	}
	free(order);
	int error = rte_acl_build(acl, &config);
	if (error)
		fail("rte_acl_build: %s", rte_strerror(-error));
	return acl;
}

static size_t wrong(const struct rte_acl_ctx *acl, const struct lookup *trace, size_t count, int algorithm)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *key = trace[i].key;
		uint32_t result = 0;
		rte_acl_classify_alg(acl, &key, &result, 1, 1, algorithm);
		found += (int64_t)result - 1 != trace[i].expected;
	}
	return found;
}

static struct measured rate(const struct rte_acl_ctx *acl, const struct lookup *trace, size_t count, int algorithm, double least)
{
	double start = seconds(CLOCK_THREAD_CPUTIME_ID), passed;
	size_t done = 0;
	volatile uint32_t sink = 0;
	do {
		for (size_t i = 0; i < count; i += BURST) {
			const uint8_t *keys[BURST];
			uint32_t results[BURST], n = count - i < BURST ? count - i : BURST;
			for (uint32_t k = 0; k < n; k++)
				keys[k] = trace[i + k].key;
			rte_acl_classify_alg(acl, keys, results, n, 1, algorithm);
			sink ^= results[n - 1];
		}
		done += count;
		passed = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
	} while (passed < least);
	return (struct measured){ done, passed };
}

int main(int argc, char **argv)
{
	if (argc < 5)
		fail("usage: acl RULES TRACE SECONDS EAL-ARGUMENTS...");
	struct lines lines = read_rules(argv[1]);
	struct trace trace = read_trace(argv[2], lines.kind);
	const struct fields *fields = lines.kind == FIVE ? &five_tuple : &twelve_tuple;
	struct lookup *all_keys = keys(&trace, fields);
	double least = atof(argv[3]);
	argv[3] = argv[0];
	if (rte_eal_init(argc - 3, argv + 3) < 0)
		fail("rte_eal_init: %s", rte_strerror(rte_errno));
	size_t before = allocated();
	double start = seconds(CLOCK_MONOTONIC);
	struct rte_acl_ctx *acl = built(&lines, fields);
	printf("{\"rules\": %u, \"build_s\": %.4f, \"bytes\": %zu}\n", lines.count, seconds(CLOCK_MONOTONIC) - start, allocated() - before);
	static const struct {
		const char *name;
		int algorithm;
	} all[] = { { "scalar", RTE_ACL_CLASSIFY_SCALAR },
		    { "AVX2", RTE_ACL_CLASSIFY_AVX2 },
		    { "AVX-512x32", RTE_ACL_CLASSIFY_AVX512X32 } };
	bool has[sizeof all / sizeof *all];
	for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
		has[a] = rte_acl_set_ctx_classify(acl, all[a].algorithm) == 0;
		size_t errors = has[a] ? wrong(acl, all_keys, trace.count, all[a].algorithm) : 0;
		if (errors)
			fail("%s: %zu of %zu answers differ from the trace's", all[a].name, errors, trace.count);
	}
	while (next_turn()) {
		const char *comma = "";
		printf("{");
		for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
			if (!has[a])
				continue;
			/* Whoever had the processor before has left nothing in its caches. */
			rate(acl, all_keys, trace.count, all[a].algorithm, 0);
			print_measured(comma, all[a].name, rate(acl, all_keys, trace.count, all[a].algorithm, least));
			comma = ", ";
		}
		printf("}\n");
	}
	rte_acl_free(acl);
	rte_eal_cleanup();
	return 0;
}
