//! The answering half of a connection: the peer's packets to memory, receives and answers.
