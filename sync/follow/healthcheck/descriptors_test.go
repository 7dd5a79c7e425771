package healthcheck

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/model"
	"kube-vmap/sync"
	"kube-vmap/sync/follow/listen/listentest"
)

// childEnv is set in a child process, whose limit of descriptors is 256.
const childEnv = "KUBE_VMAP_TEST_DESCRIPTORS"

// TestDescriptorsAreReserved has more health check node ports than descriptors, and then none left.
func TestDescriptorsAreReserved(t *testing.T) {
	if os.Getenv(childEnv) != "" {
		testReserve(t)
		return
	}
	const limited = `ulimit -S -n 128 && ulimit -H -n 256 && exec "$0" -test.run "$1"`
	child := exec.CommandContext(t.Context(), "sh", "-c", limited, os.Args[0], "^"+t.Name()+"$")
	child.Env = append(os.Environ(), childEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func testReserve(t *testing.T) {
	r, ports := newRig(listedAddresses), listentest.FreePorts(t, 140)
	r.run(t)
	now := sync.Committed{NodeAddrs: loopback}
	for i, port := range ports {
		now.HealthChecks = append(now.HealthChecks, check(fmt.Sprint("web-", i), port, 1, 1))
	}
	r.Follow(now)
	open := func() (n int) {
		for _, c := range r.sockets.Counts() {
			n += c.Open
		}
		return n
	}
	half := 255 / 2 // Go raises the soft limit of 128 to one less than the hard limit
	listentest.Eventually(t, "half of the descriptors listen", func() bool {
		return open() == half && len(r.recorder.Warnings()) > 0
	})
	expectWarnings := func(what string, events, lines int) {
		t.Helper()
		const text = "too many open files"
		log, notes := r.log.String(), fmt.Sprint(r.recorder.Warnings())
		if strings.Count(log, text) != lines || strings.Count(notes, text) != events {
			t.Errorf("%s: events %s, log:\n%s\nwant %d events, %d lines", what, notes, log, events, lines)
		}
	}
	expectWarnings("too many ports", 1, 1)

	at := ports[0]
	client, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	connection := os.NewFile(uintptr(client), "client")
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		files = append(files, f)
	}
	if len(files) < 64 {
		t.Errorf("only %d descriptors are left", len(files))
	}
	to := syscall.SockaddrInet4{Port: int(at), Addr: loopback[model.IPv4].As4()}
	if err := syscall.Connect(client, &to); err != nil {
		t.Fatal(err)
	}
	listentest.Eventually(t, "no descriptor left", func() bool {
		return strings.Contains(r.log.String(), "cannot accept,")
	})
	for _, f := range files {
		_ = f.Close()
	}
	if _, err := io.WriteString(connection, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(connection); err != nil || !strings.Contains(string(text), `"localEndpoints": 1`) {
		t.Errorf("response %q, %v", text, err)
	}
	answers(t, netip.AddrPortFrom(loopback[model.IPv6], ports[0]), 200, "web-0")
	expectWarnings("no descriptors", 1, 2)

	now.HealthChecks = nil
	for i := range ports[:120] {
		now.HealthChecks = append(now.HealthChecks, check(fmt.Sprint("web-", i), 0))
	}
	r.Follow(now)
	answers(t, netip.AddrPortFrom(loopback[model.IPv6], ports[139]), 200, "web-139")
	expectWarnings("fewer ports", 1, 2)
}
