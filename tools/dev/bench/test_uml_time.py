"""What samples of a User-mode Linux machine count as."""

import uml_time

KERNEL = "/cache/clients/uml612/linux"


def sample(*frames: str, file: str = KERNEL) -> str:
    return "\n".join(f"\t  {at:x} {name} ({file})" for at, name in enumerate(frames, 0x1000))


def test_the_innermost_function_that_is_known_decides():
    text = "\n\n".join([
        sample("memcpy_orig", "shmem_file_read_iter", "handle_syscall", "userspace"),
        sample("_copy_from_user", "ib_uverbs_post_send", "ib_uverbs_write", "handle_syscall"),
        sample("crc32_body", "rxe_icrc_hdr", "handle_syscall", "userspace"),
        sample("writev", "vector_net_start_xmit", "tcp_write_xmit", "handle_syscall"),
        sample("tcp_v4_rcv", "handle_softirqs", "handle_syscall"),
        sample("rxe_sender", "do_task", "do_work", "process_one_work"),
        sample("arch_ptrace", "userspace"),
        sample("do_idle", "cpu_startup_entry"),
        sample("[unknown]", "syscall", file="/dev/shm/#209697 (deleted)"),
        sample("ptrace_stop", file="[kernel.kallsyms]"),
        ""])
    assert uml_time.read_samples(text) == {
        uml_time.OWN: 1, uml_time.RDMA: 3, uml_time.CARD: 1, uml_time.SOFTIRQ: 1,
        uml_time.ENTRY: 1, uml_time.OTHER: 2, uml_time.USER: 1}
