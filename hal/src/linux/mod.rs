//! Linux: verbs files, mapped registers and memory, made with rustix. The only system calls of the
//! project's drivers.
