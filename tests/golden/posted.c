/*
 * Posts work requests with libmlx5, on the virtual ConnectX, and prints one line each: what was
 * posted, by which values, and the bytes of the work entry in the ring. To be compared with
 * posted.txt (see regenerate) and, from there, with what doorbell posts for the same request.
 *
 * Keys and addresses are made up: the queue pair is connected to nobody, so nothing comes of what it
 * sends. Each request starts in slot 0 of a ring of zeros.
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define RADDR 0x0123456789abcde8
#define RKEY 0xa1b2c3d4
#define VALUE 0x91827364
#define ADD 0x1122334455667788
#define SWAP 0xfedcba9876543210

enum kind {
	WRITE,
	WRITE_IMMEDIATE,
	READ,
	SEND,
	SEND_IMMEDIATE,
	SEND_INVALIDATE,
	FETCH_ADD,
	COMPARE_SWAP,
	KINDS
};

static const struct {
	const char *name;
	enum ibv_wr_opcode opcode;
} kinds[KINDS] = {
	[WRITE] = { "write", IBV_WR_RDMA_WRITE },
	[WRITE_IMMEDIATE] = { "write_immediate", IBV_WR_RDMA_WRITE_WITH_IMM },
	[READ] = { "read", IBV_WR_RDMA_READ },
	[SEND] = { "send", IBV_WR_SEND },
	[SEND_IMMEDIATE] = { "send_immediate", IBV_WR_SEND_WITH_IMM },
	[SEND_INVALIDATE] = { "send_invalidate", IBV_WR_SEND_WITH_INV },
	[FETCH_ADD] = { "fetch_add", IBV_WR_ATOMIC_FETCH_AND_ADD },
	[COMPARE_SWAP] = { "compare_swap", IBV_WR_ATOMIC_CMP_AND_SWP },
};

static struct ibv_qp *pair;
static struct mlx5dv_qp rings;
/* Nobody's. */
static const union ibv_gid gid = { .raw = { 0xfe, 0x80, [15] = 0xff } };
static uint8_t data[1024];

static struct ibv_sge piece(unsigned number, uint32_t length)
{
	return (struct ibv_sge){ .addr = 0x7766554433221100 + number * 0x10000,
				 .length = length,
				 .lkey = 0x00c0ffee + number };
}

/* A ring as it was made, to be posted to. */
static void reset(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	NEED(ibv_modify_qp(pair, &attr, IBV_QP_STATE) == 0);
	memset(rings.sq.buf, 0, (size_t)rings.sq.wqe_cnt * rings.sq.stride);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = pair->qp_num,
				     .ah_attr = { .port_num = 1,
						  .is_global = 1,
						  .grh = { .dgid = gid, .sgid_index = 0 } } };
	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void post_list(enum kind kind, struct ibv_sge *list, int count, unsigned flags)
{
	struct ibv_send_wr wr = { .opcode = kinds[kind].opcode,
				  .sg_list = list,
				  .num_sge = count,
				  .send_flags = flags }, *bad;

	if (kind == SEND_INVALIDATE)
		wr.invalidate_rkey = VALUE;
	else
		wr.imm_data = htobe32(VALUE);
	if (kind == FETCH_ADD || kind == COMPARE_SWAP) {
		wr.wr.atomic.remote_addr = RADDR;
		wr.wr.atomic.rkey = RKEY;
		wr.wr.atomic.compare_add = ADD;
		wr.wr.atomic.swap = SWAP;
	} else {
		wr.wr.rdma.remote_addr = RADDR;
		wr.wr.rdma.rkey = RKEY;
	}
	NEED(ibv_post_send(pair, &wr, &bad) == 0);
}

static void post_builder(enum kind kind, struct ibv_sge *list, int count, unsigned flags)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair);

	ibv_wr_start(qp);
	qp->wr_flags = flags & ~IBV_SEND_INLINE;
	switch (kind) {
	case WRITE:
		ibv_wr_rdma_write(qp, RKEY, RADDR);
		break;
	case WRITE_IMMEDIATE:
		ibv_wr_rdma_write_imm(qp, RKEY, RADDR, htobe32(VALUE));
		break;
	case READ:
		ibv_wr_rdma_read(qp, RKEY, RADDR);
		break;
	case SEND:
		ibv_wr_send(qp);
		break;
	case SEND_IMMEDIATE:
		ibv_wr_send_imm(qp, htobe32(VALUE));
		break;
	case SEND_INVALIDATE:
		ibv_wr_send_inv(qp, VALUE);
		break;
	case FETCH_ADD:
		ibv_wr_atomic_fetch_add(qp, RKEY, RADDR, ADD);
		break;
	case COMPARE_SWAP:
		ibv_wr_atomic_cmp_swp(qp, RKEY, RADDR, ADD, SWAP);
		break;
	default:
		abort();
	}
	if (flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)list[0].addr, list[0].length);
	else if (count == 1)
		ibv_wr_set_sge(qp, list[0].lkey, list[0].addr, list[0].length);
	else
		ibv_wr_set_sge_list(qp, count, list);
	NEED(ibv_wr_complete(qp) == 0);
}

static void line(enum kind kind, int builder, struct ibv_sge *list, int count, unsigned flags)
{
	const uint8_t *entry = rings.sq.buf;

	reset();
	if (builder)
		post_builder(kind, list, count, flags);
	else
		post_list(kind, list, count, flags);
	printf("%s builder=0x%x qpn=0x%x signaled=0x%x fenced=0x%x solicited=0x%x", kinds[kind].name,
	       builder, pair->qp_num, !!(flags & IBV_SEND_SIGNALED), !!(flags & IBV_SEND_FENCE),
	       !!(flags & IBV_SEND_SOLICITED));
	if (flags & IBV_SEND_INLINE) {
		printf(" inline=0x%x", list[0].length);
	} else {
		printf(" pieces=0x%x", count);
		for (int at = 0; at < count; at++)
			printf(" addr%d=0x%lx len%d=0x%x lkey%d=0x%x", at, list[at].addr, at,
			       list[at].length, at, list[at].lkey);
	}
	if (kind != SEND && kind != SEND_IMMEDIATE && kind != SEND_INVALIDATE)
		printf(" raddr=0x%lx rkey=0x%x", RADDR, RKEY);
	if (kind == WRITE_IMMEDIATE || kind == SEND_IMMEDIATE || kind == SEND_INVALIDATE)
		printf(" value=0x%x", VALUE);
	if (kind == FETCH_ADD || kind == COMPARE_SWAP)
		printf(" add=0x%lx", ADD);
	if (kind == COMPARE_SWAP)
		printf(" swap=0x%lx", SWAP);
	printf(" :");
	/* The entry's size, in 16 bytes, is in its eighth byte. */
	for (unsigned at = 0; at < 16 * (entry[7] & 0x3fu); at++)
		printf(" %02x", entry[at]);
	putchar('\n');
}

static void lines(enum kind kind, int builder)
{
	static const unsigned flags[] = { 0, IBV_SEND_SIGNALED, IBV_SEND_FENCE, IBV_SEND_SOLICITED,
					  IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED };
	static const uint32_t inlines[] = { 1, 8, 11, 12, 13, 16, 27, 28, 29, 44, 45, 64, 200 };
	const int atomic = kind == FETCH_ADD || kind == COMPARE_SWAP;
	const int solicits = !atomic && kind != WRITE && kind != READ;
	struct ibv_sge list[6];

	list[0] = piece(0, atomic ? 8 : 0x1234567);
	for (unsigned at = 0; at < sizeof(flags) / sizeof(flags[0]); at++) {
		unsigned asked = flags[at];

		/* doorbell has no word for a solicited write. */
		if (!solicits)
			asked &= ~IBV_SEND_SOLICITED;
		if (asked != flags[at] && !asked)
			continue;
		line(kind, builder, list, 1, asked);
	}
	if (atomic)
		return;
	line(kind, builder, list, 0, IBV_SEND_SIGNALED);
	list[0] = piece(0, 0x80000000);
	line(kind, builder, list, 1, IBV_SEND_SIGNALED);
	for (int count = 2; count <= 6; count++) {
		for (int at = 0; at < count; at++)
			list[at] = piece(at, 100 * at + 1);
		line(kind, builder, list, count, IBV_SEND_SIGNALED);
	}
	/* A piece of nothing among others. */
	list[1].length = 0;
	line(kind, builder, list, 3, IBV_SEND_SIGNALED);
	if (kind == READ)
		return;
	for (unsigned at = 0; at < sizeof(inlines) / sizeof(inlines[0]); at++) {
		list[0] = (struct ibv_sge){ .addr = (uintptr_t)data, .length = inlines[at] };
		line(kind, builder, list, 1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	}
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 1,
			 .max_send_sge = 8,
			 .max_recv_sge = 1,
			 .max_inline_data = 256 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_SEND_WITH_INV |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct mlx5dv_obj object = { .qp = { .out = &rings } };

	NEED(devices && devices[0]);
	NEED((context = ibv_open_device(devices[0])));
	NEED((attr.pd = ibv_alloc_pd(context)));
	NEED((attr.send_cq = attr.recv_cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	NEED((pair = ibv_create_qp_ex(context, &attr)));
	object.qp.in = pair;
	NEED(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP) == 0);
	for (unsigned at = 0; at < sizeof(data); at++)
		data[at] = (uint8_t)(at * 7 + 1);
	for (int kind = 0; kind < KINDS; kind++)
		for (int builder = 0; builder < 2; builder++)
			lines(kind, builder);
	return 0;
}
