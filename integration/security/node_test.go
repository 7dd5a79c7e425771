package security

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// TestListenersAreThoseDocumented enables everything that listens, without and with node
// ports on localhost.
func TestListenersAreThoseDocumented(t *testing.T) {
	always := []string{
		"tcp6 [::]:10256", "tcp 127.0.0.1:10249", "tcp 192.0.2.1:30081", "tcp6 [2001:db8:2::1]:30081", "unix @kube-vmap",
		"tcp 192.0.2.1:30082", "tcp6 [2001:db8:2::1]:30082", // whatever the Service's family
	}
	for nodePorts, more := range map[string][]string{
		"primary":             nil,
		"primary,localhost":   {"tcp 127.0.0.1:30080", "tcp6 [::1]:30080"},
		"primary,127.0.0.0/8": {"tcp 127.0.0.1:30080"},
		"primary,all": {
			"tcp 10.244.1.1:30081", "tcp6 [fd00:10:244:1::1]:30081", "tcp 10.244.1.1:30082", "tcp6 [fd00:10:244:1::1]:30082",
		},
	} {
		t.Run(nodePorts, func(t *testing.T) {
			l, f := newLab(t)
			single := balanced(l, "single", 21, 30082)
			single.Kinds = []model.Kind{model.KindLoadBalancerIP}
			single.Edit = func(s *corev1.Service) {
				s.Spec.HealthCheckNodePort, s.Status.LoadBalancer.Ingress = 30082, nil
				s.Spec.ClusterIPs, s.Spec.IPFamilies = s.Spec.ClusterIPs[:1], s.Spec.IPFamilies[:1]
			}
			f.Put("services", balanced(l, "web", 20, 30081), single) // with node port 30080
			before := sockets(t, l.Node)
			d := daemon.Start(t, l.Node, f, "--nodeport-addresses="+nodePorts)
			want := slices.Sorted(slices.Values(slices.Concat(always, more)))
			d.After(func() { f.Put("next", second(l, "next", 2)) }) // by then all sockets that wait for the first rules are open
			for _, socket := range want {
				if table, addr, _ := strings.Cut(socket, " "); table != "unix" {
					reachable(t, l.Node, addr)
				}
			}
			var got []string
			for _, s := range sockets(t, l.Node) {
				if !slices.Contains(before, s) {
					got = append(got, s)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("listening on\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// reachable waits until a socket listens on an address of the host.
func reachable(t *testing.T, h *lab.Node, addr string) {
	t.Helper()
	to := netip.MustParseAddrPort(addr)
	if to.Addr().IsUnspecified() {
		to = netip.AddrPortFrom(netip.IPv6Loopback(), to.Port())
	}
	eventually.Holds(t, "a socket listens on "+addr, func() bool {
		got, err := h.Ask(model.TCP, to, 300*time.Millisecond)
		return err == nil && got.Outcome != lab.Refused
	})
}

// sockets returns the host's sockets that receive packets from anywhere, sorted: listening
// TCP and Unix ones, UDP and raw ones.
func sockets(t *testing.T, h *lab.Node) (all []string) {
	t.Helper()
	const (
		listen  = "0A"       // TCP_LISTEN (include/net/tcp_states.h)
		accepts = "00010000" // __SO_ACCEPTCON (include/linux/net.h)
	)
	err := h.Do(func() error {
		for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "unix"} {
			text, err := os.ReadFile("/proc/thread-self/net/" + table)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			for line := range strings.Lines(string(text)) {
				fields := strings.Fields(line)
				switch {
				case table == "unix":
					if len(fields) == 8 && fields[3] == accepts {
						all = append(all, table+" "+fields[7])
					}
				case strings.Contains(fields[1], ":") && (fields[3] == listen || !strings.HasPrefix(table, "tcp")):
					all = append(all, table+" "+socketAddr(fields[1]))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// socketAddr parses an address of /proc/net: hexadecimal 32-bit words in the machine's byte
// order.
func socketAddr(text string) string {
	addr, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(addr)
	if err != nil {
		return text
	}
	for word := range slices.Chunk(b, 4) {
		slices.Reverse(word) // tests run on little-endian machines
	}
	a, _ := netip.AddrFromSlice(b)
	n, _ := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(a, uint16(n)).String()
}

// TestOnlyConntrackSysctlsChange compares all sysctls of the node's network before and
// after, including route_localnet.
func TestOnlyConntrackSysctlsChange(t *testing.T) {
	l, f := newLab(t)
	f.Put("web", balanced(l, "web", 1, 30081))
	before := settings(t, l.Node)
	daemon.Start(t, l.Node, f, "--nodeport-addresses=primary,localhost", "--conntrack-tcp-be-liberal")
	after := settings(t, l.Node)
	if len(before) < 100 || before["ipv4/conf/all/route_localnet"] != "0" {
		t.Fatalf("%d sysctls, route_localnet is %q", len(before), before["ipv4/conf/all/route_localnet"])
	}
	allowed := []string{
		"netfilter/nf_conntrack_tcp_be_liberal", "netfilter/nf_conntrack_tcp_timeout_close_wait",
		"netfilter/nf_conntrack_tcp_timeout_established",
	}
	var changed []string
	for name, value := range after {
		if old, known := before[name]; known && old != value {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	if !slices.Equal(changed, allowed) {
		t.Errorf("changed %v, want %v", changed, allowed)
	}
}

// settings returns the sysctls of a host's network, without counters.
func settings(t *testing.T, h *lab.Node) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := h.Do(func() error {
		const root = "/proc/sys/net/"
		return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "nf_conntrack_count") {
				return err
			}
			// Some are write-only, or their feature is disabled.
			if text, err := os.ReadFile(path); err == nil {
				all[strings.TrimPrefix(path, root)] = strings.TrimSpace(string(text))
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestInitOnlyNeedsNoAPIServer has nothing that could lead to one, or what leads nowhere.
func TestInitOnlyNeedsNoAPIServer(t *testing.T) {
	l, _ := newLab(t)
	for minutes, args := range map[int][]string{10: nil, 11: {"--master=https://192.0.2.200:6443"}, 12: {"--kubeconfig=/nonexistent"}} {
		out := daemon.Run(t, l.Node.Host, append([]string{
			"--init-only", fmt.Sprintf("--conntrack-tcp-timeout-close-wait=%dm", minutes),
		}, args...)...)
		var value []byte
		err := l.Node.Do(func() (err error) {
			value, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait")
			return err
		})
		if out.ExitCode != 0 || err != nil || string(value) != fmt.Sprintln(60*minutes) {
			t.Errorf("%v: the sysctl is %s, %v\n%s", args, value, err, out)
		}
	}
	if out := labtest.Run(t, l.Node.Host, "", "nft", "list", "tables"); strings.Contains(out, "kube-vmap") {
		t.Errorf("it programmed %s", out)
	}
}
