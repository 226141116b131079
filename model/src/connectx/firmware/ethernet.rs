//! Ethernet: send and receive queues, and the objects that frames are steered by.
