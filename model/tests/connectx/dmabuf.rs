//! Regions of a dma-buf (`UVERBS_METHOD_REG_DMABUF_MR`, `ib_umem_dmabuf_get`).

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::verbs::ioctl::Attribute;
use doorbell::mlx5::abi::verbs::method::{self, reg_dmabuf_mr as id};
use doorbell::mlx5::abi::wqe::DataSegment;
use doorbell_hal::Errno;
use doorbell_model::connectx::Network;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};

/// What stands for a device's memory: a file of three pages.
fn buffer() -> OwnedFd {
    let file = memfd_create("device memory", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, 3 * 4096).unwrap();
    file
}

#[derive(Clone, Copy)]
struct Request {
    domain: u32,
    offset: u64,
    length: u64,
    iova: u64,
    descriptor: i32,
    access: u64,
}

/// Handle and key.
fn register(client: &Client, request: Request) -> Result<(u32, u32), Errno> {
    let (mut lkey, mut rkey) = ([0; 4], [0; 4]);
    let mut bytes = command(
        method::mr::REG_DMABUF,
        &[
            Attribute::new_handle(id::HANDLE),
            Attribute::handle(id::PD_HANDLE, request.domain),
            Attribute::input_u64(id::OFFSET, request.offset),
            Attribute::input_u64(id::LENGTH, request.length),
            Attribute::input_u64(id::IOVA, request.iova),
            Attribute::input_u32(id::FD, request.descriptor as u32),
            Attribute::input_u64(id::ACCESS_FLAGS, request.access),
            output(id::RESP_LKEY, &mut lkey),
            output(id::RESP_RKEY, &mut rkey),
        ],
    );
    client.call(&mut bytes)?;
    assert_eq!(lkey, rkey);
    Ok((attribute(&bytes, 0).data as u32, u32::from_ne_bytes(lkey)))
}

#[test]
fn bytes_move_between_dma_bufs() {
    let (network, mut a, b) = connected(1);
    let (from, to) = (buffer(), buffer());
    pwrite(&from, b"on the device", 5000).unwrap();
    let request = |side: &Side, file: &OwnedFd| Request {
        domain: side.domain,
        offset: 4096,
        length: 8192,
        iova: 0x5000,
        descriptor: file.as_raw_fd(),
        access: 0xf,
    };
    let (_, source) = register(&a.client, request(&a, &from)).unwrap();
    let (handle, target) = register(&b.client, request(&b, &to)).unwrap();
    // The region has its own reference on the memory.
    drop(from);
    let piece = DataSegment::new(0x5000 + 5000 - 4096, source, 13);
    let entry = a.pair.write_entry(piece, 0x5000 + 100, target);
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, 0)]);
    let mut bytes = [0; 13];
    pread(&to, &mut bytes, 4096 + 100).unwrap();
    assert_eq!(&bytes, b"on the device");
    b.client.destroy(method::mr::DESTROY, 0, handle, &mut []).unwrap();
    let entry = a.pair.write_entry(piece, 0x5000, target);
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain().len(), 1);
    pread(&to, &mut bytes, 4096).unwrap();
    assert_eq!(bytes, [0; 13], "the key is gone");
}

#[test]
fn what_is_no_dma_buf_or_too_short_is_refused() {
    let client = Client::new(&Network::stepped(0));
    let file = buffer();
    let good = Request {
        domain: client.domain(),
        offset: 0,
        length: 3 * 4096,
        iova: 0x1000,
        descriptor: file.as_raw_fd(),
        access: 1,
    };
    register(&client, good).unwrap();
    let refusal = |change: &dyn Fn(&mut Request)| {
        let mut request = good;
        change(&mut request);
        register(&client, request).err()
    };
    assert_eq!(refusal(&|r| r.length += 1), Some(Errno::EINVAL), "past the end");
    assert_eq!(refusal(&|r| r.length = 0), Some(Errno::EINVAL));
    assert_eq!(refusal(&|r| r.offset = u64::MAX - 4095), Some(Errno::EINVAL), "wraps around");
    assert_eq!(refusal(&|r| r.iova += 1), Some(Errno::EINVAL), "another offset in the page");
    assert_eq!(refusal(&|r| r.descriptor = -1), Some(Errno::EBADF));
    assert_eq!(refusal(&|r| r.descriptor = 10_000), Some(Errno::EBADF));
    assert_eq!(refusal(&|r| r.access = 2), Some(Errno::EINVAL), "remote without local write");
    assert_eq!(refusal(&|r| r.access = 1 | 1 << 5), Some(Errno::EINVAL), "zero based");
    assert_eq!(refusal(&|r| r.access = 1 | 1 << 20), None, "relaxed ordering");
    assert_eq!(refusal(&|r| r.domain = 99), Some(Errno::ENOENT));
    let (read, _write) = rustix::pipe::pipe().unwrap();
    let pipe = read.as_raw_fd();
    assert_eq!(refusal(&|r| r.descriptor = pipe), Some(Errno::EINVAL), "a pipe");
    assert_eq!(client.control.objects().regions, 2);
}
