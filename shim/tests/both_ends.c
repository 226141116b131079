/*
 * Two reliable-connected queue pairs of one process, through libibverbs: every operation, its bytes
 * verified. Prints one line for each thing that holds; exits at the first that does not.
 *
 * gcc -Wall -Wextra -Werror -o both_ends both_ends.c -libverbs
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NEED(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("line %d: not so: %s (errno %d, %s)\n", __LINE__, #condition, errno, \
			       strerror(errno));                                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define BYTES (1 << 20)

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *bytes;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_port_attr port;
static union ibv_gid gid;
static struct end a, b;

static void holds(const char *what)
{
	printf("holds: %s\n", what);
	fflush(stdout);
}

static void fill(uint8_t *bytes, size_t length, unsigned seed)
{
	for (size_t at = 0; at < length; at++)
		bytes[at] = (uint8_t)((at * 131 + seed * 17 + (at >> 8)) ^ seed);
}

/* The next completion of a queue, which has to come. */
static struct ibv_wc completion(struct end *end)
{
	struct ibv_wc wc;
	int found;

	while ((found = ibv_poll_cq(end->cq, 1, &wc)) == 0)
		;
	NEED(found == 1);
	return wc;
}

static struct ibv_wc success(struct end *end, uint64_t id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = completion(end);

	if (wc.status != IBV_WC_SUCCESS)
		printf("status: %s\n", ibv_wc_status_str(wc.status));
	NEED(wc.status == IBV_WC_SUCCESS);
	NEED(wc.wr_id == id);
	NEED(wc.opcode == opcode);
	NEED(wc.qp_num == end->qp->qp_num);
	return wc;
}

static struct ibv_sge piece(struct end *end, uint32_t offset, uint32_t length)
{
	return (struct ibv_sge){ (uintptr_t)end->bytes + offset, length, end->mr->lkey };
}

static void post_receive(struct end *end, uint64_t id, uint32_t offset, uint32_t length)
{
	struct ibv_sge sge = piece(end, offset, length);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	NEED(ibv_post_recv(end->qp, &wr, &bad) == 0);
}

static void post(struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	NEED(ibv_post_send(end->qp, wr, &bad) == 0);
}

static struct ibv_send_wr request(uint64_t id, enum ibv_wr_opcode opcode, struct ibv_sge *list,
				  int count)
{
	return (struct ibv_send_wr){ .wr_id = id,
				     .opcode = opcode,
				     .sg_list = list,
				     .num_sge = count,
				     .send_flags = IBV_SEND_SIGNALED };
}

static void at_peer(struct ibv_send_wr *wr, struct end *peer, uint64_t offset)
{
	wr->wr.rdma.remote_addr = (uintptr_t)peer->bytes + offset;
	wr->wr.rdma.rkey = peer->mr->rkey;
}

static void make(struct end *end, int extended)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64,
			 .max_recv_wr = 64,
			 .max_send_sge = 4,
			 .max_recv_sge = 4,
			 .max_inline_data = 200 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};

	NEED(posix_memalign((void **)&end->bytes, 4096, BYTES) == 0);
	memset(end->bytes, 0, BYTES);
	NEED((end->mr = ibv_reg_mr(pd, end->bytes, BYTES, access)));
	NEED((end->cq = ibv_create_cq(context, 256, end, channel, 0)));
	attr.send_cq = attr.recv_cq = end->cq;
	if (extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND |
				      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				      IBV_QP_EX_WITH_RDMA_READ;
	}
	NEED((end->qp = ibv_create_qp_ex(context, &attr)));
}

static void connect_to(struct end *end, struct end *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ |
						       IBV_ACCESS_REMOTE_ATOMIC };

	NEED(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
	     0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = port.active_mtu,
				     .dest_qp_num = peer->qp->qp_num,
				     .rq_psn = 0xfffff0,
				     .max_dest_rd_atomic = 4,
				     .min_rnr_timer = 1,
				     .ah_attr = { .port_num = 1, .dlid = port.lid } };
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.dgid = gid;
		attr.ah_attr.grh.sgid_index = 3;
		attr.ah_attr.grh.hop_limit = 64;
	}
	NEED(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				   IBV_QP_MIN_RNR_TIMER) == 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS,
				     .timeout = 14,
				     .retry_cnt = 7,
				     .rnr_retry = 7,
				     .sq_psn = 0xfffff0,
				     .max_rd_atomic = 4 };
	NEED(ibv_modify_qp(end->qp, &attr,
			   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void reset_and_connect(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	NEED(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE) == 0);
	NEED(ibv_modify_qp(b.qp, &attr, IBV_QP_STATE) == 0);
	connect_to(&a, &b);
	connect_to(&b, &a);
}

static void sends(void)
{
	struct ibv_sge list[3];
	struct ibv_send_wr wr;
	struct ibv_wc wc;

	for (uint32_t length = 1, id = 1; length <= BYTES / 2; length = length * 3 + 1, id++) {
		fill(a.bytes, length, id);
		post_receive(&b, id, 0, BYTES);
		list[0] = piece(&a, 0, length);
		wr = request(1000 + id, IBV_WR_SEND, list, 1);
		post(&a, &wr);
		wc = success(&b, id, IBV_WC_RECV);
		NEED(wc.byte_len == length);
		NEED(memcmp(a.bytes, b.bytes, length) == 0);
		success(&a, 1000 + id, IBV_WC_SEND);
	}
	holds("sends of any size");

	post_receive(&b, 1, 0, 4096);
	wr = request(2, IBV_WR_SEND_WITH_IMM, NULL, 0);
	wr.imm_data = htobe32(0x11223344);
	post(&a, &wr);
	wc = success(&b, 1, IBV_WC_RECV);
	NEED(wc.byte_len == 0 && (wc.wc_flags & ~IBV_WC_GRH) == IBV_WC_WITH_IMM && wc.imm_data == htobe32(0x11223344));
	success(&a, 2, IBV_WC_SEND);
	holds("a send of nothing, with an immediate");

	/* Three pieces into two. */
	fill(a.bytes, 3000, 77);
	list[0] = piece(&a, 0, 7);
	list[1] = piece(&a, 7, 1993);
	list[2] = piece(&a, 2000, 1000);
	struct ibv_sge into[2] = { piece(&b, 100, 999), piece(&b, 5000, 4000) };
	struct ibv_recv_wr receive = { .wr_id = 3, .sg_list = into, .num_sge = 2 }, *bad;
	NEED(ibv_post_recv(b.qp, &receive, &bad) == 0);
	wr = request(4, IBV_WR_SEND, list, 3);
	post(&a, &wr);
	wc = success(&b, 3, IBV_WC_RECV);
	NEED(wc.byte_len == 3000);
	NEED(memcmp(a.bytes, b.bytes + 100, 999) == 0);
	NEED(memcmp(a.bytes + 999, b.bytes + 5000, 2001) == 0);
	success(&a, 4, IBV_WC_SEND);
	holds("several pieces on both sides");

	for (uint32_t length = 0; length <= 200; length++) {
		uint8_t text[200];

		fill(text, length, length);
		list[0] = (struct ibv_sge){ (uintptr_t)text, length, 0 };
		post_receive(&b, length, 0, 4096);
		wr = request(length, IBV_WR_SEND, list, 1);
		wr.send_flags |= IBV_SEND_INLINE;
		post(&a, &wr);
		wc = success(&b, length, IBV_WC_RECV);
		NEED(wc.byte_len == length && memcmp(text, b.bytes, length) == 0);
		success(&a, length, IBV_WC_SEND);
	}
	holds("inline sends of 0 to 200 bytes");
}

static void remote_operations(void)
{
	struct ibv_sge sge = piece(&a, 0, 100000);
	struct ibv_send_wr wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
	struct ibv_wc wc;
	uint64_t *word = (uint64_t *)(b.bytes + 4096), *was = (uint64_t *)(a.bytes + 8192);

	fill(a.bytes, 100000, 5);
	at_peer(&wr, &b, 333);
	post(&a, &wr);
	wc = success(&a, 1, IBV_WC_RDMA_WRITE);
	NEED(memcmp(a.bytes, b.bytes + 333, 100000) == 0);
	holds("a write");

	post_receive(&b, 9, 0, 0);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = 7;
	post(&a, &wr);
	success(&a, 1, IBV_WC_RDMA_WRITE);
	wc = success(&b, 9, IBV_WC_RECV_RDMA_WITH_IMM);
	NEED(wc.imm_data == 7 && wc.byte_len == 100000 && (wc.wc_flags & ~IBV_WC_GRH) == IBV_WC_WITH_IMM);
	holds("a write with an immediate");

	fill(b.bytes, 200000, 6);
	sge = piece(&a, 3, 200000);
	wr = request(2, IBV_WR_RDMA_READ, &sge, 1);
	at_peer(&wr, &b, 0);
	post(&a, &wr);
	success(&a, 2, IBV_WC_RDMA_READ);
	NEED(memcmp(b.bytes, a.bytes + 3, 200000) == 0);
	holds("a read");

	*word = 40;
	sge = piece(&a, 8192, 8);
	wr = request(3, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 1);
	wr.wr.atomic.remote_addr = (uintptr_t)word;
	wr.wr.atomic.rkey = b.mr->rkey;
	wr.wr.atomic.compare_add = 2;
	post(&a, &wr);
	wc = success(&a, 3, IBV_WC_FETCH_ADD);
	NEED(*was == 40 && *word == 42 && wc.byte_len == 8);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 0x1122334455667788;
	post(&a, &wr);
	success(&a, 3, IBV_WC_COMP_SWAP);
	NEED(*was == 42 && *word == 0x1122334455667788);
	wr.wr.atomic.swap = 1;
	post(&a, &wr);
	success(&a, 3, IBV_WC_COMP_SWAP);
	NEED(*was == 0x1122334455667788 && *word == 0x1122334455667788);
	holds("fetch-and-add and compare-and-swap");
}

/* Many requests, in lists, most of them unsignaled, around the end of the ring. */
static void many(void)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];

	for (unsigned round = 0; round < 50; round++) {
		for (unsigned at = 0; at < 16; at++) {
			sge[at] = piece(&a, at * 1000, 700 + round);
			wr[at] = request(round * 16 + at, at % 5 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
					 &sge[at], 1);
			at_peer(&wr[at], &b, 100000 + at * 1000);
			wr[at].send_flags = at == 15 ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : 0;
			wr[at].next = at == 15 ? NULL : &wr[at + 1];
		}
		fill(a.bytes, 16000, round);
		post(&a, wr);
		success(&a, round * 16 + 15, IBV_WC_RDMA_READ);
		for (unsigned at = 0; at < 16; at++)
			NEED(memcmp(a.bytes + at * 1000, b.bytes + 100000 + at * 1000, 700) == 0);
	}
	holds("lists of requests with one completion each");
}

static void *send_later(void *unused)
{
	struct ibv_send_wr wr = request(1, IBV_WR_SEND, NULL, 0);

	usleep(20000);
	post(&a, &wr);
	return unused;
}

static void events(void)
{
	struct ibv_cq *cq;
	void *of;
	pthread_t sender;
	struct pollfd file = { .fd = channel->fd, .events = POLLIN };

	/* Both queues are armed, one right after the other, through the same register. */
	for (unsigned round = 0; round < 20; round++) {
		unsigned seen = 0;

		NEED(ibv_req_notify_cq(a.cq, 0) == 0);
		NEED(ibv_req_notify_cq(b.cq, 0) == 0);
		post_receive(&b, 2, 0, 16);
		NEED(pthread_create(&sender, NULL, send_later, NULL) == 0);
		for (unsigned both = 0; both < 2; both++) {
			NEED(ibv_get_cq_event(channel, &cq, &of) == 0);
			NEED(of == (cq == a.cq ? &a : &b));
			seen |= cq == a.cq ? 1 : 2;
			ibv_ack_cq_events(cq, 1);
		}
		NEED(seen == 3);
		NEED(pthread_join(sender, NULL) == 0);
		success(&a, 1, IBV_WC_SEND);
		success(&b, 2, IBV_WC_RECV);
	}
	holds("both completion queues wake a sleeper");

	/* Nothing is armed: nothing is readable. */
	post_receive(&b, 2, 0, 16);
	struct ibv_send_wr wr = request(1, IBV_WR_SEND, NULL, 0);
	post(&a, &wr);
	success(&a, 1, IBV_WC_SEND);
	success(&b, 2, IBV_WC_RECV);
	NEED(poll(&file, 1, 0) == 0);
	NEED(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	NEED(ibv_get_cq_event(channel, &cq, &of) == -1 && errno == EAGAIN);
	holds("an unarmed queue is silent, and a channel can be made not to wait");

	/* Armed for solicited completions: the first message is none. */
	NEED(ibv_req_notify_cq(b.cq, 1) == 0);
	for (unsigned solicited = 0; solicited < 2; solicited++) {
		post_receive(&b, 2, 0, 16);
		wr.send_flags = IBV_SEND_SIGNALED | (solicited ? IBV_SEND_SOLICITED : 0);
		post(&a, &wr);
		success(&a, 1, IBV_WC_SEND);
		success(&b, 2, IBV_WC_RECV);
		NEED(poll(&file, 1, solicited ? 5000 : 50) == (int)solicited);
	}
	NEED(ibv_get_cq_event(channel, &cq, &of) == 0 && cq == b.cq);
	ibv_ack_cq_events(cq, 1);
	holds("solicited events");
}

static void failures(void)
{
	struct ibv_sge sge = piece(&a, 0, 64);
	struct ibv_send_wr wr = request(1, IBV_WR_RDMA_WRITE, &sge, 1);
	struct ibv_async_event event;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_wc wc;

	post_receive(&b, 5, 0, 16);
	at_peer(&wr, &b, 0);
	wr.wr.rdma.rkey ^= 0x100;
	post(&a, &wr);
	wc = completion(&a);
	NEED(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 1);
	wc = completion(&b);
	NEED(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 5);
	NEED(ibv_get_async_event(context, &event) == 0);
	NEED(event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == b.qp);
	ibv_ack_async_event(&event);
	NEED(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR);
	wr.send_flags = 0;
	post(&a, &wr);
	wc = completion(&a);
	NEED(wc.status == IBV_WC_WR_FLUSH_ERR);
	reset_and_connect();
	holds("a wrong key: both ends fail, with the event, and can be reset");

	wr = request(2, IBV_WR_RDMA_WRITE, &sge, 1);
	at_peer(&wr, &b, 0);
	sge.lkey ^= 0x100;
	post(&a, &wr);
	NEED(completion(&a).status == IBV_WC_LOC_PROT_ERR);
	reset_and_connect();

	post_receive(&b, 6, 0, 16);
	sge = piece(&a, 0, 64);
	wr = request(3, IBV_WR_SEND, &sge, 1);
	post(&a, &wr);
	NEED(completion(&a).status == IBV_WC_REM_INV_REQ_ERR);
	NEED(completion(&b).status == IBV_WC_LOC_LEN_ERR);
	reset_and_connect();
	holds("a wrong local key and a message too long");

	/* A receive that comes late: the sender is told to wait. */
	wr = request(4, IBV_WR_SEND, &sge, 1);
	post(&a, &wr);
	usleep(5000);
	post_receive(&b, 7, 0, 64);
	success(&b, 7, IBV_WC_RECV);
	success(&a, 4, IBV_WC_SEND);
	holds("a receive that comes late");
}

/* The builder of requests, and the cursor of completions. */
static void extended(void)
{
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 64,
					       .wc_flags = IBV_WC_EX_WITH_BYTE_LEN |
							   IBV_WC_EX_WITH_IMM |
							   IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
	struct ibv_poll_cq_attr poll_attr = {};
	struct ibv_sge list[2] = { piece(&a, 0, 300), piece(&a, 300, 700) };
	int found;

	NEED(qp);
	fill(a.bytes, 1000, 99);
	post_receive(&b, 8, 50000, 2000);
	ibv_wr_start(qp);
	qp->wr_id = 21;
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.bytes);
	ibv_wr_set_sge_list(qp, 2, list);
	qp->wr_id = 22;
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.bytes + 2000);
	ibv_wr_set_inline_data(qp, a.bytes, 150);
	qp->wr_id = 23;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(qp, htobe32(5));
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.bytes, 1000);
	NEED(ibv_wr_complete(qp) == 0);
	success(&a, 23, IBV_WC_SEND);
	NEED(success(&b, 8, IBV_WC_RECV).imm_data == htobe32(5));
	NEED(memcmp(a.bytes, b.bytes, 1000) == 0);
	NEED(memcmp(a.bytes, b.bytes + 2000, 150) == 0);
	NEED(memcmp(a.bytes, b.bytes + 50000, 1000) == 0);
	holds("requests of the builder");

	NEED((cq = ibv_create_cq_ex(context, &cq_attr)));
	NEED(ibv_start_poll(cq, &poll_attr) == ENOENT);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
					 .send_cq = ibv_cq_ex_to_cq(cq),
					 .recv_cq = ibv_cq_ex_to_cq(cq),
					 .cap = { 8, 8, 1, 1, 0 } };
	struct end old = a;
	NEED((a.qp = ibv_create_qp(pd, &attr)));
	a.cq = ibv_cq_ex_to_cq(cq);
	reset_and_connect();
	for (unsigned id = 1; id <= 5; id++) {
		struct ibv_send_wr wr = request(id, IBV_WR_RDMA_WRITE, list, 1);

		at_peer(&wr, &b, 0);
		post(&a, &wr);
	}
	for (unsigned id = 1; id <= 5;) {
		while ((found = ibv_start_poll(cq, &poll_attr)) == ENOENT)
			;
		NEED(found == 0);
		do {
			NEED(cq->status == IBV_WC_SUCCESS && cq->wr_id == id);
			NEED(ibv_wc_read_opcode(cq) == IBV_WC_RDMA_WRITE);
			NEED(ibv_wc_read_qp_num(cq) == a.qp->qp_num);
			id++;
		} while ((found = ibv_next_poll(cq)) == 0);
		NEED(found == ENOENT);
		ibv_end_poll(cq);
	}
	NEED(ibv_destroy_qp(a.qp) == 0 && ibv_destroy_cq(a.cq) == 0);
	a = old;
	reset_and_connect();
	holds("completions of the cursor");
}

int main(void)
{
	int count;
	struct ibv_device **devices = ibv_get_device_list(&count);

	NEED(devices && count == 1);
	NEED(strcmp(ibv_get_device_name(devices[0]), "mlx5_0") == 0);
	NEED((context = ibv_open_device(devices[0])));
	ibv_free_device_list(devices);
	NEED(ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		NEED(ibv_query_gid(context, 1, 3, &gid) == 0);
	NEED((pd = ibv_alloc_pd(context)));
	NEED((channel = ibv_create_comp_channel(context)));
	make(&a, 1);
	make(&b, 0);
	connect_to(&a, &b);
	connect_to(&b, &a);
	holds("two connected queue pairs");

	sends();
	remote_operations();
	many();
	extended();
	events();
	failures();

	NEED(ibv_dealloc_pd(pd) == EBUSY);
	struct end *ends[] = { &a, &b };
	for (unsigned at = 0; at < 2; at++) {
		NEED(ibv_destroy_cq(ends[at]->cq) == EBUSY);
		NEED(ibv_destroy_qp(ends[at]->qp) == 0);
		NEED(ibv_destroy_cq(ends[at]->cq) == 0);
		NEED(ibv_dereg_mr(ends[at]->mr) == 0);
		free(ends[at]->bytes);
	}
	NEED(ibv_destroy_comp_channel(channel) == 0);
	NEED(ibv_dealloc_pd(pd) == 0);
	NEED(ibv_close_device(context) == 0);
	holds("everything goes away");
	return 0;
}
