"""What the lab's programs on pyverbs share: the constants by their names, and the way to a peer on the same port."""

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.qp import QPAttr

try:
    import pyverbs.enums as e
except ModuleNotFoundError:
    # Since rdma-core 56 or so the constants are members of enumerations.
    import pyverbs.libibverbs_enums as enumerations

    class e:
        """All their members by name."""

    for enumeration in vars(enumerations).values():
        for name, value in getattr(enumeration, "__members__", {}).items():
            setattr(e, name, value)

ACCESS = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
)


def way_to(context, gid_index, lid, number, receive_psn, send_psn, mtu, reads=8, gid=None):
    """The attributes that connect a queue pair of the first port to another: from the port's identifier of this
    index, or, if there is none, by the local identifier. `reads` is how many reads and atomics may be on their way,
    and `gid` the other's identifier, if it is not this one's."""
    attributes = QPAttr(port_num=1)
    attributes.qp_access_flags = ACCESS
    attributes.dest_qp_num = number
    attributes.rq_psn, attributes.sq_psn = receive_psn, send_psn
    attributes.path_mtu = mtu
    # This side takes 8 at once, and the other may take fewer.
    attributes.max_dest_rd_atomic, attributes.max_rd_atomic = 8, reads
    attributes.min_rnr_timer, attributes.timeout = 12, 14
    attributes.retry_cnt = attributes.rnr_retry = 7
    if gid_index is None:
        attributes.ah_attr = AHAttr(port_num=1, dlid=lid)
    else:
        route = GlobalRoute(dgid=gid or context.query_gid(1, gid_index), sgid_index=gid_index)
        attributes.ah_attr = AHAttr(port_num=1, is_global=1, gr=route, dlid=lid)
    return attributes
