//! The sending half of a connection: work requests to packets, answers to completions.
