package takeover

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/cmd/kube-vmap/node"
	"kube-vmap/integration/lab/labtest"
)

// sysctlNames are the sysctls of connection tracking, without their common prefix.
var sysctlNames = []string{
	"max", "buckets", "tcp_timeout_established", "tcp_timeout_close_wait", "udp_timeout", "udp_timeout_stream", "tcp_be_liberal",
}

// sysctls reads connection tracking's sysctls in the network namespace of the
// calling thread.
func sysctls() (map[string]string, error) {
	values := map[string]string{}
	for _, name := range sysctlNames {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/netfilter", "nf_conntrack_"+name))
		if err != nil {
			return nil, err
		}
		values[name] = strings.TrimSpace(string(text))
	}
	return values, nil
}

// tracked returns a machine with connection tracking, which a rule enables.
func tracked(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.run("table ip t { chain c { ct state new; }; }", "nft", "-f", "-")
	return m
}

// settings differ from the kernel's defaults.
var settings = node.Conntrack{
	TCPEstablishedTimeout: 7777 * time.Second, TCPCloseWaitTimeout: 3601 * time.Second,
	UDPTimeout: 31 * time.Second, UDPStreamTimeout: 121 * time.Second, TCPBeLiberal: true,
}

func TestConntrackSettingsAreSetInOurNamespace(t *testing.T) {
	m, other := tracked(t), tracked(t)
	var log bytes.Buffer
	var before, after, otherBefore, otherAfter map[string]string
	read := func(into *map[string]string) func() error {
		return func() (err error) { *into, err = sysctls(); return err }
	}
	set := func() error { return node.SetConntrack(settings, slog.New(slog.NewTextHandler(&log, nil))) }
	for _, step := range []struct {
		on *machine
		do func() error
	}{
		{m, read(&before)},
		{other, read(&otherBefore)},
		{m, set},
		{m, set},
		{m, read(&after)},
		{other, read(&otherAfter)},
	} {
		if err := step.on.host.Do(step.do); err != nil {
			t.Fatal(err)
		}
	}
	want := maps.Clone(before)
	want["tcp_timeout_established"], want["tcp_timeout_close_wait"] = "7777", "3601"
	want["udp_timeout"], want["udp_timeout_stream"], want["tcp_be_liberal"] = "31", "121", "1"
	if !maps.Equal(after, want) {
		t.Errorf("sysctls are %v, want %v", after, want)
	}
	if !maps.Equal(otherAfter, otherBefore) {
		t.Errorf("sysctls of another namespace are %v, were %v", otherAfter, otherBefore)
	}
	if n := strings.Count(log.String(), "sysctl set"); n != 5 {
		t.Errorf("%d settings in the log, want each of 5 once:\n%s", n, &log)
	}
}

// The limit belongs to the host, so it cannot be changed from another network namespace.
func TestConntrackLimitOfTheHostIsAWarning(t *testing.T) {
	m := tracked(t)
	var log bytes.Buffer
	err := m.host.Do(func() error {
		before, err := sysctls()
		if err != nil {
			return err
		}
		err = node.SetConntrack(node.Conntrack{MaxPerCore: 1, Min: 1 << 30}, slog.New(slog.NewTextHandler(&log, nil)))
		after, readErr := sysctls()
		if readErr == nil && !maps.Equal(before, after) {
			t.Errorf("sysctls were %v and are %v", before, after)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "level=WARN") || !strings.Contains(line, "nf_conntrack_max") {
		t.Errorf("log: %s", line)
	}
}

func TestReadOnlySysctlsAreAnErrorIfTheyDiffer(t *testing.T) {
	m := tracked(t)
	var log bytes.Buffer
	set := func(c node.Conntrack) error {
		return m.host.Do(func() error {
			return readOnlySysctls(func() error { return node.SetConntrack(c, slog.New(slog.NewTextHandler(&log, nil))) })
		})
	}
	err := set(settings)
	if err == nil {
		t.Fatal("no error where nothing could be written")
	}
	for _, word := range []string{"tcp_timeout_established", "7777", "read-only file system", "--init-only", "--conntrack-udp-timeout=0s"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not have %q: %v", word, err)
		}
	}
	if err := m.host.Do(func() error { return node.SetConntrack(settings, slog.New(slog.DiscardHandler)) }); err != nil {
		t.Fatal(err)
	}
	if err := set(settings); err != nil {
		t.Errorf("with the right values: %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", &log)
	}
}

// readOnlySysctls runs fn with a read-only /proc/sys, as in a container that is not
// privileged, in the network namespace of the calling thread. The mounts are those of a
// separate thread, which ends afterwards.
func readOnlySysctls(fn func() error) error {
	done := make(chan error)
	namespace, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(namespace)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
				return err
			}
			for _, m := range []struct {
				source, target string
				flags          uintptr
			}{
				{"", "/", unix.MS_REC | unix.MS_PRIVATE},
				{"/proc/sys", "/proc/sys", unix.MS_BIND},
				{"", "/proc/sys", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY},
			} {
				if err := unix.Mount(m.source, m.target, "", m.flags, ""); err != nil {
					return err
				}
			}
			return fn()
		}()
	}()
	return <-done
}

func TestOOMScoreIsSetOfThisProcess(t *testing.T) {
	labtest.Require(t)
	before, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile("/proc/self/oom_score_adj", before, 0); err != nil {
			t.Error(err)
		}
	}()
	if err := node.SetOOMScoreAdj(123); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || string(now) != "123\n" {
		t.Errorf("oom_score_adj is %q, %v", now, err)
	}
}
