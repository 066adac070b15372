"""What samples of a User-mode Linux machine count as, and which system calls count."""

import rdma
import uml_time

KERNEL = "/cache/clients/uml612/linux"


def sample(*frames: str, file: str = KERNEL) -> str:
    return "\n".join(f"\t  {at:x} {name} ({file})" for at, name in enumerate(frames, 0x1000))


def test_the_innermost_function_that_is_known_decides():
    text = "\n\n".join([
        sample("memcpy_orig", "shmem_file_read_iter", "handle_syscall", "userspace"),
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
        uml_time.OWN: 1, uml_time.RDMA: 2, uml_time.CARD: 1, uml_time.SOFTIRQ: 1,
        uml_time.ENTRY: 1, uml_time.OTHER: 2, uml_time.USER: 1}


def test_what_only_reads_the_clock_is_no_system_call():
    table = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ------------------
 27.78    0.150000       75000         2         1 restart_syscall
  0.00    0.000000           0      1693           clock_gettime
  0.00    0.000000           0       142        57 read
------ ----------- ----------- --------- --------- ------------------
100.00    0.540000         172      1837       155 total
"""
    assert rdma.count_calls(table) == 144
