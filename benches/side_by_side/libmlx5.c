/*
 * The work of the comparison, done with libibverbs and libmlx5. Built and loaded by the benchmark, in a
 * process whose verbs files are the virtual NIC's.
 *
 * Each count_* function does OPERATIONS operations, one after the other, as its counterpart in ours.rs
 * does. Requests are prepared before, so that what is measured is the
 * library's.
 */
#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <valgrind/callgrind.h>

#define OPERATIONS 64
/* As in ours.rs. */
#define SLOTS 512
#define REGION 4096

#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "libmlx5.c, line %d: not so: %s (%s)\n", __LINE__,          \
				#condition, strerror(errno));                                      \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/*
 * A loop that the compiler unrolls wholly, to count instructions; or, with LOOPS, not at all, to count
 * cycles.
 */
#ifdef LOOPS
#define REPEAT(count, at) _Pragma("GCC unroll 1") for (unsigned at = 0; at < (count); at++)
#else
#define REPEAT(count, at) _Pragma("GCC unroll 64") for (unsigned at = 0; at < (count); at++)
#endif

/* Uses a value at the cost of no instruction. */
static inline void used(uint64_t value)
{
	__asm__ volatile("" : : "r"(value));
}

/* Queue pairs, connected to themselves, with one completion queue. */
struct side {
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	uint8_t *bytes;
	struct ibv_cq_ex *cq;
	struct ibv_qp **pairs;
	unsigned count;
	struct ibv_sge pieces[OPERATIONS];
	struct ibv_send_wr sends[OPERATIONS];
	struct ibv_recv_wr receives[OPERATIONS];
};

static struct ibv_context *context;
static union ibv_gid gid;

static void connect_to_itself(struct ibv_qp *pair)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = IBV_MTU_4096,
				     .dest_qp_num = pair->qp_num,
				     .min_rnr_timer = 12,
				     .max_dest_rd_atomic = 1,
				     .ah_attr = { .port_num = 1,
						  .is_global = 1,
						  .grh = { .dgid = gid,
							   .sgid_index = 3,
							   .hop_limit = 64 } } };
	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	NEED(ibv_modify_qp(pair, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

/* Makes count queue pairs. */
struct side *side_open(unsigned count, int single_threaded)
{
	struct ibv_cq_init_attr_ex queue = {
		.cqe = count > 1 ? 2 * count : 2 * SLOTS,
		.wc_flags = IBV_WC_STANDARD_FLAGS,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = single_threaded ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
	};
	struct side *side = calloc(1, sizeof(*side));

	NEED(side);
	if (!context) {
		struct ibv_device **devices = ibv_get_device_list(NULL);

		NEED(devices && devices[0]);
		NEED((context = ibv_open_device(devices[0])));
		NEED(ibv_query_gid(context, 1, 3, &gid) == 0);
	}
	NEED((side->pd = ibv_alloc_pd(context)));
	NEED(posix_memalign((void **)&side->bytes, 4096, REGION) == 0);
	memset(side->bytes, 0x5a, REGION);
	NEED((side->mr = ibv_reg_mr(side->pd, side->bytes, REGION,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	NEED((side->cq = ibv_create_cq_ex(context, &queue)));
	NEED((side->pairs = calloc(count, sizeof(*side->pairs))));
	side->count = count;
	for (unsigned at = 0; at < count; at++) {
		struct ibv_qp_init_attr_ex attr = {
			.qp_type = IBV_QPT_RC,
			.send_cq = ibv_cq_ex_to_cq(side->cq),
			.recv_cq = ibv_cq_ex_to_cq(side->cq),
			.pd = side->pd,
			.cap = { .max_send_wr = count > 1 ? 4 : SLOTS / 4,
				 .max_recv_wr = count > 1 ? 1 : 2 * OPERATIONS,
				 .max_send_sge = 1,
				 .max_recv_sge = 1,
				 .max_inline_data = count > 1 ? 0 : 220 },
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
		};

		NEED((side->pairs[at] = ibv_create_qp_ex(context, &attr)));
		connect_to_itself(side->pairs[at]);
	}
	return side;
}

/* Bytes that a single doorbell of the first queue pair may carry; 0 if it has no such register. */
unsigned side_blue_flame(struct side *side)
{
	struct mlx5dv_qp rings = {};
	struct mlx5dv_obj object = { .qp = { .in = side->pairs[0], .out = &rings } };

	NEED(mlx5dv_init_obj(&object, MLX5DV_OBJ_QP) == 0);
	return rings.bf.size;
}

/*
 * Prepares OPERATIONS requests: sends or writes of length bytes, inline or not, one in every signaled
 * of them signaled, in chains of so many.
 */
void side_prepare(struct side *side, int sends, uint32_t length, int in_line, unsigned signaled,
		  unsigned chain, uint64_t id)
{
	for (unsigned at = 0; at < OPERATIONS; at++) {
		struct ibv_send_wr *wr = &side->sends[at];

		side->pieces[at] = (struct ibv_sge){ .addr = (uintptr_t)side->bytes,
						     .length = length,
						     .lkey = side->mr->lkey };
		*wr = (struct ibv_send_wr){
			.wr_id = id,
			.next = (at + 1) % chain ? wr + 1 : NULL,
			.sg_list = &side->pieces[at],
			.num_sge = 1,
			.opcode = sends ? IBV_WR_SEND : IBV_WR_RDMA_WRITE,
			.send_flags = ((at + 1) % signaled ? 0 : IBV_SEND_SIGNALED) |
				      (in_line ? IBV_SEND_INLINE : 0),
			.wr.rdma = { .remote_addr = (uintptr_t)side->bytes + REGION / 2,
				     .rkey = side->mr->rkey },
		};
		side->receives[at] = (struct ibv_recv_wr){ .wr_id = id,
							   .sg_list = &side->pieces[at],
							   .num_sge = 1 };
	}
}

/* Posts a prepared request to each of OPERATIONS queue pairs, from first on. */
void side_post_to_pairs(struct side *side, unsigned first)
{
	struct ibv_send_wr *bad;

	for (unsigned at = 0; at < OPERATIONS; at++)
		NEED(ibv_post_send(side->pairs[(first + at) % side->count], &side->sends[at],
				   &bad) == 0);
}

/* Posts some of the prepared requests to the first queue pair. */
void side_post(struct side *side, unsigned count)
{
	struct ibv_send_wr *bad;

	for (unsigned at = 0; at < count; at++)
		NEED(ibv_post_send(side->pairs[0], &side->sends[at], &bad) == 0);
}

/* Posts receives for them. */
void side_receive(struct side *side, unsigned count)
{
	struct ibv_recv_wr *bad;

	for (unsigned at = 0; at < count; at++)
		NEED(ibv_post_recv(side->pairs[0], &side->receives[at], &bad) == 0);
}

/* Polls whatever there is; answers how much. */
unsigned side_drain(struct side *side)
{
	struct ibv_wc wc;
	unsigned polled = 0;

	while (ibv_poll_cq(ibv_cq_ex_to_cq(side->cq), 1, &wc) == 1) {
		NEED(wc.status == IBV_WC_SUCCESS);
		polled++;
	}
	return polled;
}

/* Has callgrind, where there is one, write its counts out and start over. */
void side_dump(void)
{
	CALLGRIND_DUMP_STATS;
}

int count_theirs_post(struct side *side)
{
	struct ibv_qp *pair = side->pairs[0];
	struct ibv_send_wr *bad;

	REPEAT(OPERATIONS, at)
		if (ibv_post_send(pair, &side->sends[at], &bad))
			return 1;
	return 0;
}

int count_theirs_post_8(struct side *side)
{
	struct ibv_qp *pair = side->pairs[0];
	struct ibv_send_wr *bad;

	REPEAT(OPERATIONS / 8, at)
		if (ibv_post_send(pair, &side->sends[8 * at], &bad))
			return 1;
	return 0;
}

int count_theirs_post_32(struct side *side)
{
	struct ibv_qp *pair = side->pairs[0];
	struct ibv_send_wr *bad;

	REPEAT(OPERATIONS / 32, at)
		if (ibv_post_send(pair, &side->sends[32 * at], &bad))
			return 1;
	return 0;
}

/* The builder takes values; they are where the prepared requests are. */
static inline void build_write(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr)
{
	qp->wr_id = wr->wr_id;
	qp->wr_flags = wr->send_flags;
	ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
	ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
}

int count_theirs_build(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->pairs[0]);

	REPEAT(OPERATIONS, at) {
		ibv_wr_start(qp);
		build_write(qp, &side->sends[at]);
		if (ibv_wr_complete(qp))
			return 1;
	}
	return 0;
}

int count_theirs_build_8(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->pairs[0]);

	REPEAT(OPERATIONS / 8, batch) {
		ibv_wr_start(qp);
		REPEAT(8, at)
			build_write(qp, &side->sends[8 * batch + at]);
		if (ibv_wr_complete(qp))
			return 1;
	}
	return 0;
}

int count_theirs_build_32(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->pairs[0]);

	REPEAT(OPERATIONS / 32, batch) {
		ibv_wr_start(qp);
		REPEAT(32, at)
			build_write(qp, &side->sends[32 * batch + at]);
		if (ibv_wr_complete(qp))
			return 1;
	}
	return 0;
}

int count_theirs_build_inline(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->pairs[0]);

	REPEAT(OPERATIONS, at) {
		const struct ibv_send_wr *wr = &side->sends[at];

		ibv_wr_start(qp);
		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags & ~IBV_SEND_INLINE;
		ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
		ibv_wr_set_inline_data(qp, (void *)(uintptr_t)wr->sg_list->addr,
				       wr->sg_list->length);
		if (ibv_wr_complete(qp))
			return 1;
	}
	return 0;
}

int count_theirs_build_send(struct side *side)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(side->pairs[0]);

	REPEAT(OPERATIONS, at) {
		const struct ibv_send_wr *wr = &side->sends[at];

		ibv_wr_start(qp);
		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags;
		ibv_wr_send(qp);
		ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		if (ibv_wr_complete(qp))
			return 1;
	}
	return 0;
}

int count_theirs_receive(struct side *side)
{
	struct ibv_qp *pair = side->pairs[0];
	struct ibv_recv_wr *bad;

	REPEAT(OPERATIONS, at)
		if (ibv_post_recv(pair, &side->receives[at], &bad))
			return 1;
	return 0;
}

int count_theirs_poll(struct side *side)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(side->cq);
	struct ibv_wc wc;

	REPEAT(OPERATIONS, at) {
		if (ibv_poll_cq(cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			return 1;
		used(wc.wr_id);
	}
	return 0;
}

int count_theirs_poll_16(struct side *side)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(side->cq);
	struct ibv_wc wc[16];

	REPEAT(OPERATIONS / 16, batch) {
		if (ibv_poll_cq(cq, 16, wc) != 16)
			return 1;
		REPEAT(16, at) {
			if (wc[at].status != IBV_WC_SUCCESS)
				return 1;
			used(wc[at].wr_id);
		}
	}
	return 0;
}

int count_theirs_cursor(struct side *side)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *cq = side->cq;

	REPEAT(OPERATIONS, at) {
		if (ibv_start_poll(cq, &attr) || cq->status != IBV_WC_SUCCESS)
			return 1;
		used(cq->wr_id);
		ibv_end_poll(cq);
	}
	return 0;
}

int count_theirs_cursor_16(struct side *side)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *cq = side->cq;

	REPEAT(OPERATIONS / 16, batch) {
		if (ibv_start_poll(cq, &attr) || cq->status != IBV_WC_SUCCESS)
			return 1;
		used(cq->wr_id);
		REPEAT(15, at) {
			if (ibv_next_poll(cq) || cq->status != IBV_WC_SUCCESS)
				return 1;
			used(cq->wr_id);
		}
		ibv_end_poll(cq);
	}
	return 0;
}

int count_theirs_poll_empty(struct side *side)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(side->cq);
	struct ibv_wc wc;

	REPEAT(OPERATIONS, at)
		if (ibv_poll_cq(cq, 1, &wc))
			return 1;
	return 0;
}

int count_theirs_cursor_empty(struct side *side)
{
	struct ibv_poll_cq_attr attr = {};
	struct ibv_cq_ex *cq = side->cq;

	REPEAT(OPERATIONS, at)
		if (ibv_start_poll(cq, &attr) != ENOENT)
			return 1;
	return 0;
}
