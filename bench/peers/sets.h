/* Rule sets and traces as testdata/rules/README.md describes them, not compressed, read into memory: what the peers' programs
 * (acl.c, ovs_classifier.c) have alike. What cannot be read ends the program with a word.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of five: source and destination address, source and destination port, protocol. Of twelve: in_port, dl_src, dl_dst, dl_type,
 * dl_vlan, dl_pcp, nw_src, nw_dst, nw_proto, nw_tos, tp_src, tp_dst, and the VID. */
#define VALUES 13
#define VID 12

enum kind { FIVE, TWELVE };

/* Of five, an address's mask is the prefix's length, and a port's where its range ends. */
struct line {
	uint64_t value[VALUES], mask[VALUES];
	uint32_t priority;
};

struct lines {
	enum kind kind;
	uint32_t count;
	struct line *line;
};

struct question {
	uint64_t value[VALUES];
	/* The 0-based line; -1 where none matches. */
	int64_t expected;
};

struct trace {
	size_t count;
	struct question *question;
};

static void fail(const char *format, ...)
{
	va_list list;
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	exit(1);
}

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

/* What was looked up, and the CPU time that took. */
struct measured {
	size_t done;
	double passed;
};

static void print_measured(const char *before, const char *name, struct measured m)
{
	printf("%s\"%s\": [%zu, %.6f]", before, name, m.done, m.passed);
}

/* Whether one more measurement is asked for: waits for a line of standard input, whoever is measured in between. */
static bool next_turn(void)
{
	fflush(stdout);
	for (int c = getchar(); c != EOF; c = getchar())
		if (c == '\n')
			return true;
	return false;
}

static FILE *opened(const char *path)
{
	FILE *file = fopen(path, "r");
	if (!file)
		fail("%s: cannot be read", path);
	return file;
}

/* `count + 1` of them, in twice the room whenever it is full. */
static void *room_for_one(void *all, size_t count, size_t *capacity, size_t size)
{
	if (count < *capacity)
		return all;
	*capacity = 2 * *capacity + 1024;
	all = realloc(all, *capacity * size);
	if (!all)
		fail("no memory for %zu lines", *capacity);
	return all;
}

static void read_five(const char *text, struct line *line)
{
	unsigned a[4], b[4], from[2], to[2], length[2], proto, all;
	if (sscanf(text, "@%u.%u.%u.%u/%u %u.%u.%u.%u/%u %u : %u %u : %u %x/%x", &a[0], &a[1], &a[2], &a[3], &length[0],
		   &b[0], &b[1], &b[2], &b[3], &length[1], &from[0], &to[0], &from[1], &to[1], &proto, &all) != 16)
		fail("not a rule: %s", text);
	for (int i = 0; i < 2; i++)
		if (length[i] > 32 || from[i] > to[i] || to[i] > UINT16_MAX)
			fail("a prefix or a range that can't be: %s", text);
	line->value[0] = a[0] << 24 | a[1] << 16 | a[2] << 8 | a[3];
	line->value[1] = b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
	for (int i = 0; i < 2; i++) {
		line->mask[i] = length[i];
		line->value[2 + i] = from[i];
		line->mask[2 + i] = to[i];
	}
	line->value[4] = proto & all;
	line->mask[4] = all;
}

static void read_twelve(const char *text, struct line *line)
{
	int at;
	if (sscanf(text, "%" SCNu32 " %" SCNu64 "%n", &line->priority, &line->value[VID], &at) != 2)
		fail("not a rule: %s", text);
	line->mask[VID] = 0xffff;
	for (int i = 0; i < VID; i++) {
		int length;
		if (sscanf(text + at, "%" SCNx64 "/%" SCNx64 "%n", &line->value[i], &line->mask[i], &length) != 2)
			fail("not a rule: %s", text);
		at += length;
	}
}

static struct lines read_rules(const char *path)
{
	FILE *file = opened(path);
	struct lines all = { FIVE, 0, NULL };
	char *text = NULL;
	size_t length = 0, capacity = 0;
	while (getline(&text, &length, file) > 0) {
		all.line = room_for_one(all.line, all.count, &capacity, sizeof *all.line);
		struct line *line = &all.line[all.count++];
		memset(line, 0, sizeof *line);
		enum kind kind = text[0] == '@' ? FIVE : TWELVE;
		if (all.count > 1 && kind != all.kind)
			fail("%s: rules of two kinds", path);
		all.kind = kind;
		(all.kind == FIVE ? read_five : read_twelve)(text, line);
	}
	free(text);
	fclose(file);
	if (all.count == 0)
		fail("%s: no rules", path);
	return all;
}

static struct trace read_trace(const char *path, enum kind kind)
{
	FILE *file = opened(path);
	struct trace all = { 0, NULL };
	char *text = NULL;
	size_t length = 0, capacity = 0;
	while (getline(&text, &length, file) > 0) {
		all.question = room_for_one(all.question, all.count, &capacity, sizeof *all.question);
		struct question *one = &all.question[all.count++];
		char *at = text;
		memset(one, 0, sizeof *one);
		if (kind == TWELVE)
			one->value[VID] = strtoull(at, &at, 10);
		for (int i = 0; i < (kind == TWELVE ? 12 : 5); i++)
			one->value[i] = strtoull(at, &at, kind == TWELVE ? 16 : 10);
		one->expected = strtoll(at, &at, 10);
	}
	free(text);
	fclose(file);
	if (all.count == 0)
		fail("%s: no lookups", path);
	return all;
}

static const struct line *ordering;

static int better(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	if (ordering[i].priority != ordering[j].priority)
		return ordering[i].priority > ordering[j].priority ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* The lines' numbers, best first: the highest priority, then the first line. */
static uint32_t *ranked(const struct lines *lines)
{
	uint32_t *order = malloc(lines->count * sizeof *order);
	if (!order)
		fail("no memory for %" PRIu32 " lines", lines->count);
	for (uint32_t i = 0; i < lines->count; i++)
		order[i] = i;
	ordering = lines->line;
	qsort(order, lines->count, sizeof *order, better);
	return order;
}
