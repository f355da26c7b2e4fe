"""Calls that longjmp() leaves, in the tools that measure what is between a call and its return: they are counted, and
no other call gets their time."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from c_targets import build_target
from printed import rows
from support import Tracer, run_sonde

OPENSSL = """
#include <setjmp.h>
static jmp_buf there;
static int leave;
void *TLS_client_method(void), *SSL_CTX_new(void *), *SSL_new(void *);
void SSL_set_info_callback(void *, void (*)(void *, int, int)), SSL_set_connect_state(void *);
int SSL_do_handshake(void *);
static void told(void *ssl, int where, int value) { if (leave) longjmp(there, 1); }
int main(void)
{
    for (volatile int i = 0; i < 7; i++) {
        void *ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
        SSL_set_info_callback(ssl, told);
        SSL_set_connect_state(ssl);
        leave = i % 2;
        if (!setjmp(there))
            SSL_do_handshake(ssl);
    }
}
"""

HOSTS = """
#include <netdb.h>
#include <setjmp.h>
#include <stddef.h>
static jmp_buf there;
static int leave;
void *__libc_malloc(size_t);
void *malloc(size_t size)
{
    if (leave) {
        leave = 0;
        longjmp(there, 1);
    }
    return __libc_malloc(size);
}
int main(void)
{
    for (volatile int i = 0; i < 7; i++) {
        struct addrinfo *found;
        leave = i % 2;
        if (!setjmp(there))
            getaddrinfo(i % 2 ? "left.invalid" : "localhost", 0, 0, &found);
    }
}
"""

FUNCTIONS = """
#include <setjmp.h>
#include <stdlib.h>
static jmp_buf there;
__attribute__((noipa)) int leaf(int left) { if (left) longjmp(there, 1); return left+1; }
__attribute__((noipa)) int fact(int n) { return n<2 ? 1 : n*fact(n-1); }
int main(void){ for (volatile int i=0;i<7;i++) if(!setjmp(there)) leaf(i%2); return fact(5)!=120; }
"""


ALLOCATIONS = """
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static sigjmp_buf there;
static void leave(int number) { siglongjmp(there, 1); }
int main(int count, char **words)
{
    volatile long bad[8] = {0, 35};
    signal(SIGABRT, leave);
    close(2);
    for (volatile int i = 0; i < 3; i++)
        if (!sigsetjmp(there, 1))
            bad[7] = (long)realloc((char *)bad + 9, 100);
}
"""


def build(text: str, folder: Path, *options: str) -> str:
    (folder / "left.c").write_text(text)
    return build_target(str(folder / "left.c"), folder, *options)


@pytest.fixture
def handshakes(tmp_path: Path) -> str:
    """A program whose every second of seven handshakes is left."""
    return build(OPENSSL, tmp_path, "-Wl,--no-as-needed", "-l:libssl.so.3", "-l:libcrypto.so.3")


def test_sslsnoop(handshakes: str) -> None:
    done = run_sonde("sslsnoop", "-f", "json", "-c", handshakes)
    shown = rows("\n".join(line for line in done.stdout.splitlines() if line[:1] == "{"))
    assert [row["RET"] for row in shown if row["FUNC"] == "SSL_do_handshake"] == [-1] * 4
    assert "3 calls did not return" in done.stdout


def test_ssllatency(handshakes: str) -> None:
    done = run_sonde("ssllatency", "-c", handshakes)
    assert "3 calls did not return" in done.stdout.splitlines()
    assert "@statF[SSL_do_handshake]: { .count = 4," in done.stdout and "@stat[SSL_do" not in done.stdout


def test_gethostlatency(tmp_path: Path) -> None:
    done = run_sonde("gethostlatency", "-c", build(HOSTS, tmp_path))
    assert len(re.findall(r" localhost$", done.stdout, re.M)) == 4 and "left.invalid" not in done.stdout
    assert "3 calls did not return" in done.stdout.splitlines()


@pytest.mark.parametrize(("specifier", "counted", "left"), [
    ("leaf(int n):int:$entry(n)", {"@x[0]: 4"}, True),
    ("leaf(int n):int,int:$entry(n),$latency < 1000000000", {"@x[0, true]: 4"}, True),
    ("fact(int n):int,int:$entry(n),$retval", {"@x[1, 1]: 1", "@x[2, 2]: 1", "@x[3, 6]: 1", "@x[4, 24]: 1",
                                              "@x[5, 120]: 1"}, False),
    ("fact(int n):int:$entry(n):$entry(n) > 3", {"@x[4]: 1", "@x[5]: 1"}, False),
])
def test_argdist(specifier: str, counted: set[str], left: bool, tmp_path: Path) -> None:
    program = build(FUNCTIONS, tmp_path, "-fno-optimize-sibling-calls")
    done = run_sonde("argdist", "-C", f"r:{program}:{specifier}#x", "-c", program)
    lines = done.stdout.splitlines()
    assert {line for line in lines if line.startswith("@")} == counted, done.stderr
    assert ("3 calls did not return" in lines) == left and ("did not return" in done.stdout) == left


def test_of_the_family_alone(tmp_path: Path) -> None:
    """The probes of memleak --follow are in every process's malloc(): what strangers leave is not the family's."""
    program = build(ALLOCATIONS, tmp_path)
    with Tracer("memleak", "--follow", "-c", "sleep 60", "60") as traced:
        subprocess.run([program], check=True)
    assert "did not return" not in traced.stdout + traced.stderr
    done = run_sonde("memleak", "--follow", "-c", program, "60")
    assert re.search(r"\b3 of \S+:realloc\b", done.stdout + done.stderr)
