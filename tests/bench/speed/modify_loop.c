/* Takes COUNT queue pairs of an RDMA device through INIT, RTR, RTS and ERR, one after the other.
 *
 *     modify_loop DEVICE GID_INDEX COUNT
 *
 * Prints the seconds of that loop and how many queue pairs are in ERR after it. Creating them is
 * not timed. The attributes are those of datapath_agent/mechanisms/verbs/attributes.py.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	for (int i = 0; devices && devices[i]; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), name))
			return ibv_open_device(devices[i]);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fprintf(stderr, "usage: modify_loop DEVICE GID_INDEX COUNT\n");
		return 2;
	}
	unsigned char gid_index = (unsigned char)strtoul(argv[2], NULL, 10);
	size_t count = strtoul(argv[3], NULL, 10);

	struct ibv_context *context = open_device(argv[1]);
	if (!context)
		die("ibv_open_device");
	struct ibv_port_attr port;
	union ibv_gid gid;
	if (ibv_query_port(context, 1, &port) || ibv_query_gid(context, 1, gid_index, &gid))
		die("ibv_query_port, ibv_query_gid");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	struct ibv_qp **qps = calloc(count, sizeof(*qps));
	if (!pd || !cq || !qps)
		die("ibv_alloc_pd, ibv_create_cq");
	struct ibv_qp_init_attr made = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	for (size_t i = 0; i < count; i++)
		if (!(qps[i] = ibv_create_qp(pd, &made)))
			die("ibv_create_qp");

	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = port.active_mtu, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 6,
		.max_rd_atomic = 1,
	};
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	double start_s = now_s();
	for (size_t i = 0; i < count; i++) {
		rtr.dest_qp_num = qps[i]->qp_num;
		rtr.rq_psn = qps[i]->qp_num * 3 & 0xffffff;
		rts.sq_psn = qps[i]->qp_num * 5 & 0xffffff;
		if (ibv_modify_qp(qps[i], &init, init_mask) || ibv_modify_qp(qps[i], &rtr, rtr_mask) ||
		    ibv_modify_qp(qps[i], &rts, rts_mask) || ibv_modify_qp(qps[i], &err, IBV_QP_STATE))
			die("ibv_modify_qp");
	}
	double elapsed_s = now_s() - start_s;

	size_t right = 0;
	for (size_t i = 0; i < count; i++) {
		struct ibv_qp_attr found;
		struct ibv_qp_init_attr unused;

		if (ibv_query_qp(qps[i], &found, IBV_QP_STATE, &unused))
			die("ibv_query_qp");
		right += found.qp_state == IBV_QPS_ERR;
	}
	printf("%.9f %zu\n", elapsed_s, right);
	return 0;
}
