"""What sslsnoop sees of a Go program's crypto/tls, against what the program says of itself."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from go_programs import build_go
from printed import rows
from support import Tracer

# Both ends of a connection, which is begun when a line is read. Each call of Read and Write is printed: name, result,
# and the bytes in hexadecimal. Where the server reads to is on its stack, which has to grow in the first call.
PROGRAM = r"""
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"strings"
)

func say(what string, n int, b []byte) int {
	fmt.Printf("%s %d %x\n", what, n, string(b[:n]))
	return n
}

func serve(c *tls.Conn, done chan bool) {
	for {
		var b [2000]byte
		n, err := c.Read(b[:])
		say("Read", n, b[:])
		if err != nil { break }
		out := []byte(strings.ToUpper(string(b[:n])))
		n, _ = c.Write(out)
		say("Write", n, out)
	}
	done <- true
}

func main() {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	t := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, _ := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	own := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	l, _ := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	done := make(chan bool)
	fmt.Scanln()
	go func() {
		c, _ := l.Accept()
		serve(c.(*tls.Conn), done)
	}()
	c, _ := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	for i := 0; i < 30; i++ {
		text := []byte(fmt.Sprintf("hello\x00\xff %s %d", strings.Repeat("x", i * 31), i))
		n, _ := c.Write(text)
		say("Write", n, text)
		b := make([]byte, 2000)
		n, _ = c.Read(b)
		say("Read", n, b)
	}
	c.Close()
	<-done
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go(tmp_path_factory.mktemp("tls"), PROGRAM, "-ldflags=-s -w")


@pytest.mark.parametrize("words", [["-p"], ["--follow", "-p"], ["-n", "prog"]])
def test_reads_and_writes(program: Path, words: list[str]) -> None:
    """Of a process, of that and what it starts, of all that run: each call with the bytes and their number."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        limited = [str(process.pid)] if "-p" in words else []
        with Tracer("sslsnoop", "-d", "-f", "json", *words, *limited) as tracer:
            said = process.communicate("\n", timeout=60)[0]
    calls: Counter[tuple[str, int, str]] = Counter()
    for line in said.splitlines():
        name, number, data = [*line.split(" "), ""][:3]
        calls[f"crypto/tls.(*Conn).{name}", int(number), shown(bytes.fromhex(data))] += 1
    shakes = [f"crypto/tls.(*Conn).{end}Handshake" for end in ("client", "server")]
    seen = [row for row in rows(tracer.stdout) if str(row["COMM"]) == "prog"]
    assert sum(calls.values()) == 121
    assert Counter((str(row["FUNC"]), int(str(row["RET"])), str(row["DATA"])) for row in seen) == calls + Counter(
        (name, 1, "") for name in shakes)
    assert tracer.status == 0 and "did not return" not in tracer.stdout


def shown(data: bytes) -> str:
    return "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data)
