/*
 * Encodes work entries, completions, doorbells and verbs commands with rdma-core's
 * and Linux's own structs and helpers, and prints one line each: what was encoded,
 * from which values, into which bytes. To be compared with encode.txt (see
 * regenerate) and, from there, with what the Rust types encode and decode.
 *
 * The verbs structs are in the host's byte order; encode.txt is a little-endian
 * host's.
 */
#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rdma/ib_user_verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <infiniband/verbs.h>
#include <infiniband/mlx5dv.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A line: LINE(kind), IN(key, value)..., out(bytes). */
#define LINE(kind) fputs(kind, stdout)
#define IN(key, value) printf(" " key "=0x%llx", (unsigned long long)(value))

static void out(const void *data, size_t len)
{
	const uint8_t *bytes = data;

	fputs(" :", stdout);
	for (size_t i = 0; i < len; i++)
		printf(" %02x", bytes[i]);
	putchar('\n');
}

/*
 * Numbers that have no pattern, the same on each run (splitmix64). Drawn one to a
 * full expression, for C does not say in which order arguments and initializers are
 * worked out.
 */
static uint64_t state = 1;

static uint64_t any64(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint32_t any32(void) { return any64(); }
static uint32_t any24(void) { return any64() & 0xffffff; }
static uint16_t any16(void) { return any64(); }
static uint8_t any8(void) { return any64(); }

static const uint8_t opcodes[] = {
	MLX5_OPCODE_NOP,	    MLX5_OPCODE_SEND_INVAL, MLX5_OPCODE_RDMA_WRITE,
	MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_SEND,	    MLX5_OPCODE_SEND_IMM,
	MLX5_OPCODE_RDMA_READ,	    MLX5_OPCODE_ATOMIC_CS,  MLX5_OPCODE_ATOMIC_FA,
};

/* Work entries. */

static void control(uint16_t index, uint8_t opcode, uint8_t opmod, uint32_t qpn, uint8_t fm_ce_se,
		    uint8_t ds, uint8_t signature, uint32_t imm)
{
	struct mlx5_wqe_ctrl_seg seg = {};

	mlx5dv_set_ctrl_seg(&seg, index, opcode, opmod, qpn, fm_ce_se, ds, signature, htobe32(imm));
	LINE("control");
	IN("index", index);
	IN("opcode", opcode);
	IN("opmod", opmod);
	IN("qpn", qpn);
	IN("fm_ce_se", fm_ce_se);
	IN("ds", ds);
	IN("signature", signature);
	IN("imm", imm);
	out(&seg, sizeof(seg));

	LINE("send_doorbell");
	IN("index", index);
	IN("opcode", opcode);
	IN("opmod", opmod);
	IN("qpn", qpn);
	IN("ds", ds);
	out(&seg, 8);
}

static void controls(void)
{
	static const uint16_t indexes[] = { 0, 1, 0xff, 0x100, 0x7fff, 0x8000, 0xffff };
	static const uint32_t qpns[] = { 0, 1, 0xff, 0x100, 0xffff, 0x10000, 0xffffff };
	static const uint8_t sizes[] = { 1, 2, 3, 4, 5, 16, 63 };

	for (size_t i = 0; i < COUNT(opcodes); i++) {
		uint16_t index = any16();
		uint32_t qpn = any24(), imm = any32();
		uint8_t flags = any8(), ds = 1 + any8() % 63;

		control(index, opcodes[i], 0, qpn, flags, ds, 0, imm);
	}
	for (size_t i = 0; i < COUNT(indexes); i++)
		control(indexes[i], MLX5_OPCODE_RDMA_WRITE, 0, qpns[i], MLX5_WQE_CTRL_CQ_UPDATE,
			sizes[i], 0, 0);
	for (int i = 0; i < 16; i++) {
		uint16_t index = any16();
		uint32_t qpn = any24(), imm = any32();
		uint8_t opcode = any8(), opmod = any8(), flags = any8();
		uint8_t ds = any8() % 64, signature = any8();

		control(index, opcode, opmod, qpn, flags, ds, signature, imm);
	}
}

static void control_flags(void)
{
	for (int i = 0; i < 16; i++) {
		bool solicited = i & 1, signaled = i & 2, fence = i & 4, small_fence = i & 8;
		uint8_t flags = 0;

		if (fence && small_fence)
			continue; /* Two values of one field. */
		flags |= solicited ? MLX5_WQE_CTRL_SOLICITED : 0;
		flags |= signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
		flags |= fence ? MLX5_WQE_CTRL_FENCE : 0;
		flags |= small_fence ? MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE : 0;
		LINE("control_flags");
		IN("solicited", solicited);
		IN("signaled", signaled);
		IN("fence", fence);
		IN("small_fence", small_fence);
		out(&flags, sizeof(flags));
	}
}

static void data(uint64_t addr, uint32_t lkey, uint32_t length)
{
	struct mlx5_wqe_data_seg seg;

	/* 2^31 bytes are told as 0. */
	mlx5dv_set_data_seg(&seg, length == 1u << 31 ? 0 : length, lkey, addr);
	LINE("data");
	IN("addr", addr);
	IN("lkey", lkey);
	IN("length", length);
	out(&seg, sizeof(seg));
}

static void segments(void)
{
	static const uint32_t lengths[] = { 1, 0x1000, 0xffff, 0x10000, 0x7fffffff, 0x80000000 };
	static const uint16_t inlines[] = { 0, 1, 12, 13, 32, 0x3ff };
	struct mlx5_wqe_data_seg end = {};

	for (size_t i = 0; i < COUNT(lengths); i++) {
		uint64_t addr = any64();
		uint32_t lkey = any32();

		data(addr, lkey, lengths[i]);
	}
	data(0, 0, 1);
	data(~0ull, ~0u, 0x7fffffff);

	mlx5dv_set_data_seg(&end, 0, MLX5_INVALID_LKEY, 0);
	LINE("terminator");
	out(&end, sizeof(end));

	for (int i = 0; i < 8; i++) {
		uint64_t raddr = any64();
		uint32_t rkey = any32();
		struct mlx5_wqe_raddr_seg seg = { .raddr = htobe64(raddr), .rkey = htobe32(rkey) };

		LINE("remote");
		IN("raddr", raddr);
		IN("rkey", rkey);
		out(&seg, sizeof(seg));
	}
	for (int i = 0; i < 8; i++) {
		uint64_t swap_add = any64(), compare = i % 2 ? any64() : 0;
		struct mlx5_wqe_atomic_seg seg = { .swap_add = htobe64(swap_add),
						   .compare = htobe64(compare) };

		LINE("atomic");
		IN("swap_add", swap_add);
		IN("compare", compare);
		out(&seg, sizeof(seg));
	}
	for (size_t i = 0; i < COUNT(inlines); i++) {
		struct mlx5_wqe_inl_data_seg seg = { .byte_count =
							     htobe32(inlines[i] | MLX5_INLINE_SEG) };

		LINE("inline");
		IN("length", inlines[i]);
		out(&seg, sizeof(seg));
	}
}

/* A whole entry of the send ring: `sges` entries of memory, or `inline_len` bytes of data. */
static void entry(uint8_t opcode, unsigned int sges, unsigned int inline_len)
{
	union {
		struct mlx5_wqe_ctrl_seg ctrl;
		uint8_t bytes[1024];
	} wqe = {};
	size_t at = sizeof(wqe.ctrl);
	uint16_t index = any16();
	uint32_t qpn = any24(), imm = 0;
	bool signaled = any8() & 1, solicited = false, fence = any8() & 1;
	uint8_t flags = 0;

	LINE("entry");
	IN("opcode", opcode);
	IN("index", index);
	IN("qpn", qpn);
	switch (opcode) {
	case MLX5_OPCODE_SEND_IMM:
	case MLX5_OPCODE_SEND_INVAL:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
		imm = any32();
		solicited = any8() & 1;
		IN("imm", imm);
		break;
	}
	switch (opcode) {
	case MLX5_OPCODE_RDMA_WRITE:
	case MLX5_OPCODE_RDMA_WRITE_IMM:
	case MLX5_OPCODE_RDMA_READ:
	case MLX5_OPCODE_ATOMIC_CS:
	case MLX5_OPCODE_ATOMIC_FA: {
		struct mlx5_wqe_raddr_seg *remote = (void *)&wqe.bytes[at];
		uint64_t raddr = any64();
		uint32_t rkey = any32();

		remote->raddr = htobe64(raddr);
		remote->rkey = htobe32(rkey);
		at += sizeof(*remote);
		IN("raddr", raddr);
		IN("rkey", rkey);
		break;
	}
	}
	if (opcode == MLX5_OPCODE_ATOMIC_CS || opcode == MLX5_OPCODE_ATOMIC_FA) {
		struct mlx5_wqe_atomic_seg *atomic = (void *)&wqe.bytes[at];
		uint64_t operand = any64();

		atomic->swap_add = htobe64(operand);
		at += sizeof(*atomic);
		if (opcode == MLX5_OPCODE_ATOMIC_CS) {
			uint64_t compare = any64();

			atomic->compare = htobe64(compare);
			IN("swap", operand);
			IN("compare", compare);
		} else {
			IN("add", operand);
		}
	}
	IN("sges", sges);
	for (unsigned int i = 0; i < sges; i++) {
		uint64_t addr = any64();
		uint32_t lkey = any32(), length = 1 + any32() % 0x7fffffff;

		mlx5dv_set_data_seg((void *)&wqe.bytes[at], length, lkey, addr);
		at += sizeof(struct mlx5_wqe_data_seg);
		printf(" addr%u=0x%llx lkey%u=0x%x length%u=0x%x", i, (unsigned long long)addr, i,
		       lkey, i, length);
	}
	if (inline_len) {
		struct mlx5_wqe_inl_data_seg *header = (void *)&wqe.bytes[at];

		header->byte_count = htobe32(inline_len | MLX5_INLINE_SEG);
		at += sizeof(*header);
		for (unsigned int i = 0; i < inline_len; i++)
			wqe.bytes[at++] = i + 1; /* Byte i of the data is i + 1. */
		at = (at + 15) / 16 * 16;
		IN("inline", inline_len);
	}
	flags |= signaled ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
	flags |= solicited ? MLX5_WQE_CTRL_SOLICITED : 0;
	flags |= fence ? MLX5_WQE_CTRL_FENCE : 0;
	IN("signaled", signaled);
	IN("solicited", solicited);
	IN("fence", fence);
	mlx5dv_set_ctrl_seg(&wqe.ctrl, index, opcode, 0, qpn, flags, at / 16, 0, htobe32(imm));
	out(&wqe, at);
}

static void entries(void)
{
	static const uint8_t messages[] = {
		MLX5_OPCODE_RDMA_WRITE, MLX5_OPCODE_RDMA_WRITE_IMM, MLX5_OPCODE_SEND,
		MLX5_OPCODE_SEND_IMM,	MLX5_OPCODE_SEND_INVAL,
	};
	static const unsigned int inlines[] = { 1, 11, 12, 13, 28, 32, 60, 100, 188 };

	entry(MLX5_OPCODE_NOP, 0, 0);
	for (size_t i = 0; i < COUNT(messages); i++) {
		for (unsigned int sges = 0; sges < 4; sges++)
			entry(messages[i], sges, 0);
		for (size_t j = 0; j < COUNT(inlines); j++)
			entry(messages[i], 0, inlines[j]);
	}
	for (unsigned int sges = 0; sges < 4; sges++)
		entry(MLX5_OPCODE_RDMA_READ, sges, 0);
	entry(MLX5_OPCODE_RDMA_WRITE, 30, 0);
	for (int i = 0; i < 4; i++) {
		entry(MLX5_OPCODE_ATOMIC_CS, 1, 0);
		entry(MLX5_OPCODE_ATOMIC_FA, 1, 0);
	}
}

/* A receive: an entry of `room` data segments, of which `sges` are used. */
static void receive(unsigned int room, unsigned int sges)
{
	struct mlx5_wqe_data_seg wqe[16] = {};

	LINE("receive");
	IN("room", room);
	IN("sges", sges);
	for (unsigned int i = 0; i < sges; i++) {
		uint64_t addr = any64();
		uint32_t lkey = any32(), length = 1 + any32() % 0x7fffffff;

		mlx5dv_set_data_seg(&wqe[i], length, lkey, addr);
		printf(" addr%u=0x%llx lkey%u=0x%x length%u=0x%x", i, (unsigned long long)addr, i,
		       lkey, i, length);
	}
	if (sges < room)
		mlx5dv_set_data_seg(&wqe[sges], 0, MLX5_INVALID_LKEY, 0);
	out(wqe, room * sizeof(wqe[0]));
}

static void receives(void)
{
	for (unsigned int room = 1; room <= 8; room *= 2)
		for (unsigned int sges = 0; sges <= room; sges++)
			receive(room, sges);
}

/* Completions. */

static void op_own(void)
{
	for (int i = 0; i < 256; i++) {
		struct mlx5_cqe64 cqe = { .op_own = i };

		LINE("op_own");
		IN("owner", mlx5dv_get_cqe_owner(&cqe));
		IN("solicited", mlx5dv_get_cqe_se(&cqe));
		IN("format", mlx5dv_get_cqe_format(&cqe));
		IN("opcode", mlx5dv_get_cqe_opcode(&cqe));
		out(&cqe.op_own, 1);
	}
}

static struct mlx5_cqe64 print_completion(uint8_t opcode)
{
	uint32_t uidx = any24(), imm = any32(), byte_cnt = any32(), qpn = any24();
	uint32_t rqpn = any24(), sl = any8() & 0xf, grh = any8() & 3;
	uint8_t sop = opcodes[any8() % COUNT(opcodes)], owner = any8() & 1, se = any8() & 1;
	uint8_t format = any8() % 3, signature = any8(), app = any8(), app_op = any8();
	uint8_t ml_path = any8(), hds = any8(), l4 = any8();
	uint16_t counter = any16(), wqe_id = any16(), slid = any16(), vlan = any16();
	uint16_t app_info = any16();
	uint64_t timestamp = any64();
	struct mlx5_cqe64 cqe = {
		.wqe_id = htobe16(wqe_id),
		.ml_path = ml_path,
		.slid = htobe16(slid),
		.flags_rqpn = htobe32(grh << 28 | sl << 24 | rqpn),
		.hds_ip_ext = hds,
		.l4_hdr_type_etc = l4,
		.vlan_info = htobe16(vlan),
		.srqn_uidx = htobe32(uidx),
		.imm_inval_pkey = htobe32(imm),
		.app = app,
		.app_op = app_op,
		.app_info = htobe16(app_info),
		.byte_cnt = htobe32(byte_cnt),
		.timestamp = htobe64(timestamp),
		.sop_drop_qpn = htobe32((uint32_t)sop << 24 | qpn),
		.wqe_counter = htobe16(counter),
		.signature = signature,
		.op_own = opcode << 4 | format << 2 | se << 1,
	};

	mlx5dv_set_cqe_owner(&cqe, owner);
	IN("opcode", mlx5dv_get_cqe_opcode(&cqe));
	IN("owner", mlx5dv_get_cqe_owner(&cqe));
	IN("solicited", mlx5dv_get_cqe_se(&cqe));
	IN("format", mlx5dv_get_cqe_format(&cqe));
	IN("uidx", uidx);
	IN("imm", imm);
	IN("byte_cnt", byte_cnt);
	IN("qpn", qpn);
	IN("sop", sop);
	IN("wqe_counter", counter);
	IN("timestamp", timestamp);
	IN("signature", signature);
	IN("wqe_id", wqe_id);
	IN("ml_path", ml_path);
	IN("slid", slid);
	IN("rqpn", rqpn);
	IN("sl", sl);
	IN("grh", grh);
	IN("hds_ip_ext", hds);
	IN("l4_hdr_type_etc", l4);
	IN("vlan_info", vlan);
	IN("app", app);
	IN("app_op", app_op);
	IN("app_info", app_info);
	return cqe;
}

static void completions(void)
{
	static const uint8_t kinds[] = {
		MLX5_CQE_REQ,	    MLX5_CQE_RESP_WR_IMM,   MLX5_CQE_RESP_SEND,
		MLX5_CQE_RESP_SEND_IMM, MLX5_CQE_RESP_SEND_INV, MLX5_CQE_RESIZE_CQ,
		MLX5_CQE_NO_PACKET, MLX5_CQE_SIG_ERR,	    MLX5_CQE_INVALID,
	};
	static const uint8_t syndromes[] = {
		MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR,	 MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR,
		MLX5_CQE_SYNDROME_LOCAL_PROT_ERR,	 MLX5_CQE_SYNDROME_WR_FLUSH_ERR,
		MLX5_CQE_SYNDROME_MW_BIND_ERR,		 MLX5_CQE_SYNDROME_BAD_RESP_ERR,
		MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR,	 MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR,
		MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR,	 MLX5_CQE_SYNDROME_REMOTE_OP_ERR,
		MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR, MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR,
		MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR,	 0x7f,
	};

	for (int turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < COUNT(kinds); i++) {
			struct mlx5_cqe64 cqe;

			LINE("completion");
			cqe = print_completion(kinds[i]);
			out(&cqe, sizeof(cqe));
		}
	for (size_t i = 0; i < COUNT(syndromes); i++) {
		uint32_t uidx = any24(), qpn = any24();
		uint8_t sop = opcodes[any8() % COUNT(opcodes)], vendor = any8(), signature = any8();
		uint8_t opcode = i % 2 ? MLX5_CQE_REQ_ERR : MLX5_CQE_RESP_ERR;
		uint16_t counter = any16();
		struct mlx5_err_cqe cqe = {
			.srqn = htobe32(uidx),
			.vendor_err_synd = vendor,
			.syndrome = syndromes[i],
			.s_wqe_opcode_qpn = htobe32((uint32_t)sop << 24 | qpn),
			.wqe_counter = htobe16(counter),
			.signature = signature,
			.op_own = opcode << 4 | (i & 1),
		};

		LINE("error_completion");
		IN("opcode", opcode);
		IN("owner", i & 1);
		IN("uidx", uidx);
		IN("vendor", vendor);
		IN("syndrome", syndromes[i]);
		IN("qpn", qpn);
		IN("sop", sop);
		IN("wqe_counter", counter);
		IN("signature", signature);
		out(&cqe, sizeof(cqe));
	}
	for (int i = 0; i < 3; i++) {
		struct {
			uint8_t data[64]; /* Where libmlx5 looks for it: at `cqe64 - 1`. */
			struct mlx5_cqe64 cqe;
		} cqe;

		LINE("completion128");
		for (int j = 0; j < 64; j++)
			cqe.data[j] = j + 1; /* Byte j of the data is j + 1. */
		cqe.cqe = print_completion(MLX5_CQE_RESP_SEND);
		out(&cqe, sizeof(cqe));
	}
}

/* Doorbells. */

static void doorbells(void)
{
	static const uint16_t counters[] = { 0, 1, 0xff, 0x100, 0x7fff, 0x8000, 0xffff };
	static const uint32_t consumers[] = { 0, 1, 0xff, 0x100, 0xffff, 0x10000, 0xffffff };

	for (size_t i = 0; i < COUNT(counters); i++) {
		uint16_t send = any16();
		__be32 record[2];

		record[MLX5_RCV_DBR] = htobe32(counters[i]);
		record[MLX5_SND_DBR] = htobe32(send);
		LINE("qp_record");
		IN("receive", counters[i]);
		IN("send", send);
		out(record, sizeof(record));
	}
	for (size_t i = 0; i < COUNT(consumers); i++)
		for (int j = 0; j < 8; j++) {
			/* As libmlx5 arms a completion queue. */
			uint32_t sn = j & 3, cqn = any24(), consumer = any24();
			uint32_t cmd = j & 4 ? MLX5_CQ_DB_REQ_NOT_SOL : MLX5_CQ_DB_REQ_NOT;
			uint32_t arm = sn << 28 | cmd | consumers[i];
			__be64 doorbell = htobe64((uint64_t)arm << 32 | cqn);
			__be32 record[2] = { htobe32(consumer), htobe32(arm) };

			LINE("arm_doorbell");
			IN("sn", sn);
			IN("solicited", j >> 2);
			IN("ci", consumers[i]);
			IN("cqn", cqn);
			out(&doorbell, sizeof(doorbell));

			LINE("cq_record");
			IN("consumer", consumer);
			IN("sn", sn);
			IN("solicited", j >> 2);
			IN("ci", consumers[i]);
			out(record, sizeof(record));
		}
}

/* The verbs ioctl. */

static void header(const char *method, uint16_t object_id, uint16_t method_id, uint16_t num_attrs)
{
	struct ib_uverbs_ioctl_hdr hdr = {
		.length = sizeof(hdr) + num_attrs * sizeof(struct ib_uverbs_attr),
		.object_id = object_id,
		.method_id = method_id,
		.num_attrs = num_attrs,
		.driver_id = RDMA_DRIVER_MLX5,
	};

	LINE("header_");
	LINE(method);
	IN("num_attrs", num_attrs);
	out(&hdr, sizeof(hdr));
}

static void attributes(void)
{
	for (int i = 0; i < 4; i++) {
		uint16_t id = any16() & 0x10ff, len = any16();
		uint32_t value = any32();
		uint64_t large = any64();
		struct ib_uverbs_attr attr;

		attr = (struct ib_uverbs_attr){ .attr_id = id, .flags = UVERBS_ATTR_F_MANDATORY };
		attr.data = value;
		LINE("attr_handle");
		IN("id", id);
		IN("handle", value);
		out(&attr, sizeof(attr));

		attr.data_s64 = i ? (int32_t)(value & 0x7fffffff) : -1;
		LINE("attr_descriptor");
		IN("id", id);
		IN("fd", (uint32_t)attr.data_s64);
		out(&attr, sizeof(attr));

		attr.len = sizeof(value);
		attr.data = 0;
		memcpy(&attr.data, &value, sizeof(value));
		LINE("attr_u32");
		IN("id", id);
		IN("value", value);
		out(&attr, sizeof(attr));

		attr.len = sizeof(large);
		attr.data = large;
		LINE("attr_u64");
		IN("id", id);
		IN("value", large);
		out(&attr, sizeof(attr));

		attr.len = len;
		LINE("attr_address");
		IN("id", id);
		IN("address", large);
		IN("len", len);
		out(&attr, sizeof(attr));

		attr.flags &= ~UVERBS_ATTR_F_MANDATORY;
		LINE("attr_optional_address");
		IN("id", id);
		IN("address", large);
		IN("len", len);
		out(&attr, sizeof(attr));
	}
}

static void headers(void)
{
	header("invoke_write", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, 5);
	header("query_port", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, 2);
	header("get_context", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, 4);
	header("query_gid_table", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, 4);
	header("query_gid_entry", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, 4);
	header("destroy_pd", UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 1);
	header("create_cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, 10);
	header("destroy_cq", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, 2);
	header("create_qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, 12);
	header("destroy_qp", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, 2);
	header("destroy_mr", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, 1);
	header("query_mr", UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, 5);
	header("reg_dmabuf_mr", UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, 9);
	header("async_event_alloc", UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, 1);
	header("uar_alloc", MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, 5);
	header("uar_destroy", MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, 1);
}

static void context_and_rings(void)
{
	struct mlx5_ib_alloc_ucontext_req_v2 context = {};
	struct mlx5_ib_create_cq cq = {};
	struct mlx5_ib_create_qp qp = {};

	context.total_num_bfregs = any32();
	context.num_low_latency_bfregs = any32();
	context.max_cqe_version = 1;
	context.lib_caps = MLX5_LIB_CAP_4K_UAR | MLX5_LIB_CAP_DYN_UAR;
	LINE("alloc_ucontext_4k_dyn");
	IN("total", context.total_num_bfregs);
	IN("low_latency", context.num_low_latency_bfregs);
	IN("max_cqe_version", context.max_cqe_version);
	out(&context, sizeof(context));

	cq.buf_addr = any64();
	cq.db_addr = any64();
	cq.cqe_size = 64;
	cq.flags = MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX;
	cq.uar_page_index = any16();
	LINE("driver_create_cq_uar_page");
	IN("buf", cq.buf_addr);
	IN("db", cq.db_addr);
	IN("cqe_size", cq.cqe_size);
	IN("uar", cq.uar_page_index);
	out(&cq, sizeof(cq));

	qp.buf_addr = any64();
	qp.db_addr = any64();
	qp.sq_wqe_count = any32();
	qp.rq_wqe_count = any32();
	qp.rq_wqe_shift = any32();
	qp.flags = MLX5_QP_FLAG_UAR_PAGE_INDEX;
	qp.uidx = any24();
	qp.bfreg_index = any32();
	LINE("driver_create_qp_uar_page");
	IN("buf", qp.buf_addr);
	IN("db", qp.db_addr);
	IN("sq_wqe_count", qp.sq_wqe_count);
	IN("rq_wqe_count", qp.rq_wqe_count);
	IN("rq_wqe_shift", qp.rq_wqe_shift);
	IN("uidx", qp.uidx);
	IN("uar", qp.bfreg_index);
	out(&qp, sizeof(qp));
}

static void region(void)
{
	struct ib_uverbs_reg_mr cmd = {};

	cmd.start = any64();
	cmd.length = any64();
	cmd.hca_va = any64();
	cmd.pd_handle = any32();
	cmd.access_flags = IB_UVERBS_ACCESS_LOCAL_WRITE | IB_UVERBS_ACCESS_REMOTE_READ |
			   IB_UVERBS_ACCESS_RELAXED_ORDERING;
	LINE("reg_mr_local_write_remote_read_relaxed");
	IN("start", cmd.start);
	IN("length", cmd.length);
	IN("hca_va", cmd.hca_va);
	IN("pd", cmd.pd_handle);
	out(&cmd, sizeof(cmd));
}

static void transitions(void)
{
	struct ib_uverbs_modify_qp init = {}, rtr = {}, rts = {};

	init.qp_handle = any32();
	init.attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	init.qp_access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
	init.qp_state = IBV_QPS_INIT;
	init.port_num = 1;
	LINE("modify_qp_init_remote_write_remote_atomic");
	IN("qp", init.qp_handle);
	out(&init, sizeof(init));

	rtr.dest.dgid[10] = rtr.dest.dgid[11] = 0xff; /* ::ffff:10.0.0.x */
	rtr.dest.dgid[12] = 10;
	rtr.dest.dgid[15] = any8();
	rtr.dest.sgid_index = any8();
	rtr.dest.hop_limit = any8();
	rtr.dest.traffic_class = any8();
	rtr.dest.is_global = 1;
	rtr.dest.port_num = 1;
	rtr.qp_handle = any32();
	rtr.attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	rtr.rq_psn = any24();
	rtr.dest_qp_num = any24();
	rtr.qp_state = IBV_QPS_RTR;
	rtr.path_mtu = IBV_MTU_1024;
	rtr.max_dest_rd_atomic = any8();
	rtr.min_rnr_timer = 12;
	LINE("modify_qp_rtr_ipv4_mtu1024");
	IN("qp", rtr.qp_handle);
	IN("last", rtr.dest.dgid[15]);
	IN("sgid_index", rtr.dest.sgid_index);
	IN("hop_limit", rtr.dest.hop_limit);
	IN("traffic_class", rtr.dest.traffic_class);
	IN("rq_psn", rtr.rq_psn);
	IN("dest_qp_num", rtr.dest_qp_num);
	IN("max_dest_rd_atomic", rtr.max_dest_rd_atomic);
	IN("min_rnr_timer", rtr.min_rnr_timer);
	out(&rtr, sizeof(rtr));

	rts.qp_handle = any32();
	rts.attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	rts.sq_psn = any24();
	rts.qp_state = IBV_QPS_RTS;
	rts.max_rd_atomic = any8();
	rts.timeout = 14;
	rts.retry_cnt = 7;
	rts.rnr_retry = 6;
	LINE("modify_qp_rts");
	IN("qp", rts.qp_handle);
	IN("sq_psn", rts.sq_psn);
	IN("max_rd_atomic", rts.max_rd_atomic);
	IN("timeout", rts.timeout);
	IN("retry_cnt", rts.retry_cnt);
	IN("rnr_retry", rts.rnr_retry);
	out(&rts, sizeof(rts));
}

static void gid_entries(void)
{
	for (int i = 0; i < 2; i++) {
		uint64_t high = any64(), low = any64();
		__be64 gid[2] = { htobe64(high), htobe64(low) };
		struct ib_uverbs_gid_entry entry = {};

		memcpy(entry.gid, gid, sizeof(gid)); /* As the kernel does. */
		entry.gid_index = any32();
		entry.port_num = any32();
		entry.gid_type = IB_UVERBS_GID_TYPE_ROCE_V2;
		entry.netdev_ifindex = any32();
		LINE("gid_entry_roce_v2");
		IN("high", high);
		IN("low", low);
		IN("index", entry.gid_index);
		IN("port", entry.port_num);
		IN("ifindex", entry.netdev_ifindex);
		out(&entry, sizeof(entry));
	}
}

static void events(void)
{
	for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; type++) {
		struct ib_uverbs_async_event_desc event = { .element = any64(), .event_type = type };

		LINE("async_event");
		IN("element", event.element);
		IN("type", type);
		out(&event, sizeof(event));
	}
	for (int i = 0; i < 4; i++) {
		struct ib_uverbs_comp_event_desc event = { .cq_handle = any64() };

		LINE("comp_event");
		IN("cq", event.cq_handle);
		out(&event, sizeof(event));
	}
}

int main(void)
{
	controls();
	control_flags();
	segments();
	entries();
	receives();
	op_own();
	completions();
	doorbells();
	headers();
	attributes();
	context_and_rings();
	region();
	transitions();
	gid_entries();
	events();
	return 0;
}
