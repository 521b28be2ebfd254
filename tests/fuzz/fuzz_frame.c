/*
 * Any bytes as a frame: all that a receiver does with one.  What parses has
 * the size it says; what passes every check can be built again from its
 * objects, and has the same plain bytes, ids and refs.
 */
#include "base/buf.h"
#include "proto/fmt_frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void build_again(const struct frame_view *v, const uint8_t *plain)
{
	static struct id refs[FRAME_REFS_MAX];
	struct frame_builder *b;
	struct frame_view again;
	struct frame_object o;
	struct buf out;
	struct err e;

	check(frame_builder_new(&b, &e) == 0);
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		for (uint32_t k = 0; k < o.refs; k++)
			frame_ref_at(v, o.first_ref + k, &refs[k]);
		check(frame_builder_add(b, &o.id, o.type, plain + o.offset,
		    o.size, refs, o.refs, &e) == 0);
	}
	buf_init(&out, FRAME_STORED_MAX);
	check(frame_builder_finish(b, CODEC_RAW, 0, &out, &e) == 0);
	check(frame_hash_ok(out.data, out.size));
	check(frame_parse(&again, out.data, out.size, &e) == 0);
	check(again.plain_size == v->plain_size &&
	    memcmp(again.payload, plain, v->plain_size) == 0);
	check(memcmp(again.objects, v->objects,
	    (size_t)(v->object_count * FRAME_OBJECT_SIZE)) == 0);
	check(memcmp(again.refs, v->refs, (size_t)v->ref_count * ID_SIZE) ==
	    0);
	buf_release(&out);
	frame_builder_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_view v;
	size_t tables, stored;
	uint8_t *plain;
	struct err e;

	(void)frame_hash_ok(data, size);
	if (size >= FRAME_HEADER_SIZE &&
	    frame_sizes(data, &tables, &stored, &e) == 0)
		check(tables < stored && stored <= FRAME_STORED_MAX);
	if (frame_parse(&v, data, size, &e) != 0)
		return 0;
	check(v.stored_size == size && v.plain_size <= FRAME_PLAIN_MAX);
	plain = malloc(v.plain_size);
	check(plain != NULL);
	if (frame_unpack(&v, plain, &e) == 0 &&
	    frame_check_objects(&v, plain, &e) == 0)
		build_again(&v, plain);
	free(plain);
	return 0;
}
