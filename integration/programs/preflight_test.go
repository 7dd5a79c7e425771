package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/cmd/programs"
	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft/foreign/kubeproxy"
	"kube-vmap/sync/source/cluster/apitest"
)

func TestMain(m *testing.M) { os.Exit(daemon.Main(m)) }

// check runs preflight on the host, with no other processes than these.
func check(t *testing.T, h *lab.Host, processes ...string) (r *preflight.Report) {
	t.Helper()
	proc := t.TempDir()
	files := map[string]string{ // the node's own settings are not those of the machine
		"sys/net/ipv4/ip_forward": "1\n", "sys/net/ipv6/conf/all/forwarding": "1\n",
	}
	for i, name := range append([]string{"kthreadd"}, processes...) {
		files[fmt.Sprintf("%d/comm", 2+i)] = name + "\n"
	}
	for name, text := range files {
		path := filepath.Join(proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Do(func() error {
		r = preflight.Run(t.Context(), preflight.Config{Node: programs.Config{Proc: proc, CNIConfig: proc + "/none"}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

func item(t *testing.T, r *preflight.Report, name string) preflight.Item {
	t.Helper()
	i := slices.IndexFunc(r.Items, func(i preflight.Item) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("no item %q in %+v", name, r.Items)
	}
	return r.Items[i]
}

func TestOtherTablesAndBackendsAreNamed(t *testing.T) {
	h := labtest.Alone(t)
	for _, table := range []string{"inet mine", "ip kube-vmap", "ip calico", "ip filter"} {
		labtest.Run(t, h, "", "nft", "add table "+table+"; add chain "+table+" c { type filter hook forward priority 0; }")
	}
	labtest.Run(t, h, "", "nft", "add table ip6 unhooked; add chain ip6 unhooked c")
	labtest.Run(t, h, "", "ip6tables-legacy", "-t", "raw", "-N", "MINE")
	r := check(t, h)
	if i := item(t, r, "other tables"); !slices.Equal(i.Evidence, []string{"inet mine"}) {
		t.Errorf("%+v", i)
	}
	if i := item(t, r, "iptables-legacy"); !slices.Equal(i.Evidence, []string{"table ip6 raw"}) {
		t.Errorf("%+v", i)
	}
}

func TestPreflightReportsWhatTakingOverMeans(t *testing.T) {
	nftables := with(nftablesMode, "nft -f -")
	legacyRules := func(t *testing.T, h *lab.Host) { iptables(t, h, "legacy") }
	nftRules := func(t *testing.T, h *lab.Host) { iptables(t, h, "nft") }
	for _, tc := range []struct {
		name, item, detail string
		verdict            programs.Verdict
		processes          []string
		prepare            func(*testing.T, *lab.Host)
	}{
		{"none", "kube-proxy", "", programs.Fine, nil, with("")},
		{"nftables, left over", "kube-proxy (nftables)", "left over: ", programs.Fine, nil, nftables},
		{"nftables, running", "kube-proxy (nftables)", "runs (process 3): kube-vmap waits", programs.Fine, []string{"kube-proxy"}, nftables},
		{"nftables, suspended", "kube-proxy (nftables)", "suspended: ", programs.Fine, nil, func(t *testing.T, h *lab.Host) {
			nftables(t, h)
			suspend(t, h)
		}},
		{"iptables-nft, left over", "kube-proxy (iptables-nft)", "left over: ", programs.Fine, nil, nftRules},
		{"iptables-legacy, left over", "kube-proxy (iptables-legacy)", programs.Get(programs.KubeProxyLegacy).Advice, programs.Conflict, nil, legacyRules},
		{"iptables-nft, suspended", "kube-proxy (iptables-nft)", "suspended: ", programs.Fine, nil, func(t *testing.T, h *lab.Host) {
			nftRules(t, h)
			suspend(t, h)
		}},
		{"went back", "kube-proxy (nftables)", "kube-vmap went back", programs.Needs, nil, func(t *testing.T, h *lab.Host) {
			nftables(t, h)
			labtest.Run(t, h, `add table inet kube-vmap-takeover { comment "returned at=2026-11-22T18:10:00Z reason=NotReady"; }`+"\n", "nft", "-f", "-")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := labtest.Alone(t)
			tc.prepare(t, h)
			i := item(t, check(t, h, tc.processes...), tc.item)
			if !strings.HasPrefix(i.Detail, tc.detail) || tc.detail == "" && i.Detail != "" || i.Verdict != tc.verdict {
				t.Errorf("%+v, want %s, %s", i, tc.verdict, tc.detail)
			}
			defer model.SetProxyName("")
			model.SetProxyName("edge") // takes over nothing
			want := ""
			if len(tc.processes) > 0 {
				want = "runs (process 3) next to kube-vmap, which does not touch its rules"
			}
			if i := item(t, check(t, h, tc.processes...), tc.item); i.Verdict != programs.Fine || i.Detail != want {
				t.Errorf("with a name: %+v, want %q", i, want)
			}
		})
	}
}

// suspend suspends kube-proxy's rules, as the take-over does.
func suspend(t *testing.T, h *lab.Host) {
	t.Helper()
	found, err := kubeproxy.Find(h.FD())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := labtest.Kernel(t, h).Apply(found.Suspend()); err != nil {
		t.Fatal(err)
	}
}

// TestPreflightComparesServiceCIDRs has an API server at an address of the node's network, and at one
// that is as good as a ClusterIP.
func TestPreflightComparesServiceCIDRs(t *testing.T) {
	node := labtest.New(t, lab.Options{}).Node
	clusterIPs := [...]netip.Addr{netip.MustParseAddr("10.96.7.7"), netip.MustParseAddr("fd00:10:96::7")}
	for _, f := range model.Families {
		if err := node.AddAddress(clusterIPs[f]); err != nil {
			t.Fatal(err)
		}
		onLink := netip.PrefixFrom(node.Addr(f), lab.OutsideRanges[f].Bits()-8).Masked()
		for _, tc := range []struct {
			server       netip.Addr
			cidr         netip.Prefix
			api, overlap string
		}{
			{node.Addr(f), lab.ServiceRanges[f], "", ""},
			{node.Addr(f), onLink, "", fmt.Sprintf("ServiceCIDR %s overlaps %s, a network of this node; "+
				"ServiceCIDR %[1]s overlaps %[3]s/%d, the API server", onLink, lab.OutsideRanges[f], node.Addr(f), node.Addr(f).BitLen())},
			{clusterIPs[f], lab.ServiceRanges[f], "without a Service: " + netip.AddrPortFrom(clusterIPs[f], 6443).String() + " is a ClusterIP", ""},
		} {
			api, cidr := apitest.New(), daemon.ServiceCIDR()
			cidr.Spec.CIDRs = []string{tc.cidr.String()}
			api.Put(cidr)
			var l net.Listener
			at := netip.AddrPortFrom(tc.server, 6443)
			if err := node.Do(func() (err error) {
				l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", at.String())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			mux := http.NewServeMux()
			mux.Handle("/apis/", api)
			mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"gitVersion":"v1.37.2"}`) })
			server := httptest.NewUnstartedServer(mux)
			server.Listener = l
			server.Start()
			config := filepath.Join(t.TempDir(), "kubeconfig")
			text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],
"clusters":[{"name":"c","cluster":{"server":"http://%s"}}]}`, at)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out := daemon.Run(t, node.Host, "preflight", "-o", "json", "--kubeconfig", config)
			server.Close()
			var r preflight.Report
			if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for name, want := range map[string]string{"API server": tc.api, "ServiceCIDRs": tc.overlap} {
				i, verdict := item(t, &r, name), programs.Fine
				if want != "" {
					verdict = programs.Needs
				}
				if i.Verdict != verdict || !strings.HasSuffix(i.Detail, want) || want == "" && i.Detail != "" {
					t.Errorf("server %s, range %s: %+v, want %s", at, tc.cidr, i, want)
				}
			}
		}
	}
}

func TestPortOfAnotherProcessIsAProxy(t *testing.T) {
	h := labtest.Alone(t)
	var l *net.TCPListener
	if err := h.Do(func() error {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:10256")
		l, _ = listener.(*net.TCPListener)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if i := item(t, check(t, h), "kube-proxy"); i.Detail != "" {
		t.Errorf("the port of this process: %+v", i)
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ctx, end := context.WithCancel(t.Context())
	other := h.Command(ctx, labtest.Path(t, "ip"), "monitor") // has the listener, too
	other.ExtraFiles = []*os.File{file}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	l.Close()
	file.Close()
	if i := item(t, check(t, h), "kube-proxy"); i.Detail != "runs (TCP ports [10256] are in use): kube-vmap waits until it ends; it can go back to it during the probation" {
		t.Errorf("the port of another process: %+v", i)
	}
	end()
	_ = other.Wait() // it was killed
}

// TestPreflightForeseesTheTakeover has rules that accept packets of pods until the take-over suspends
// them, or without kube-proxy.
func TestPreflightForeseesTheTakeover(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, rules string
		want        programs.Verdict
	}{
		{"accept", "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", programs.Fine},
		{"drop", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n", programs.Needs},
		{
			"kube-proxy and Docker only",
			"*filter\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j DOCKER-USER\n" +
				"-A KUBE-FORWARD -j ACCEPT\nCOMMIT\n",
			programs.Needs,
		},
		{"CNI plugin", "*filter\n:FORWARD DROP [0:0]\n:CNI-FORWARD - [0:0]\n-A FORWARD -j CNI-FORWARD\n-A CNI-FORWARD -j ACCEPT\nCOMMIT\n", programs.Fine},
		{"network policy", "*filter\n:cali-FORWARD - [0:0]\n-A FORWARD -j cali-FORWARD\n-A cali-FORWARD -j DROP\nCOMMIT\n", preflight.Unknown},
	} {
		legacy := preflight.Unknown
		if tc.want == programs.Fine && !strings.Contains(tc.rules, "-A") {
			legacy = programs.Fine // nothing is in effect
		}
		for program, want := range map[string]programs.Verdict{
			"iptables-nft-restore": tc.want, "ip6tables-nft-restore": tc.want, "iptables-legacy-restore": legacy, "ip6tables-legacy-restore": legacy,
		} {
			h := labtest.New(t, lab.Options{Pods: 1, RemotePods: 1}).Node.Host
			labtest.Run(t, h, tc.rules, program)
			if i := item(t, check(t, h), "packets of Services"); i.Verdict != want {
				t.Errorf("%s, %s: %+v", tc.name, program, i)
			}
		}
	}
}

// TestPreflightChangesNothing compares the listing before and after, with the program itself.
func TestPreflightChangesNothing(t *testing.T) {
	h := labtest.New(t, lab.Options{Pods: 1, RemotePods: 1}).Node.Host
	iptables(t, h, "nft")
	labtest.Run(t, h, nftablesMode, "nft", "-f", "-")
	before := labtest.Run(t, h, "", "nft", "list", "ruleset")
	if out := daemon.Run(t, h, "preflight", "-o", "wide"); out.ExitCode > 1 {
		t.Error(out)
	}
	if after := labtest.Run(t, h, "", "nft", "list", "ruleset"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestPreflightWithoutRootNamesWhatItCannotSee(t *testing.T) {
	h := labtest.Alone(t)
	unprivileged := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out := daemon.RunAs(t, h, unprivileged, "preflight", "-o", "json")
	r := report(t, out)
	for _, name := range []string{"nftables", "packets of Services", "kube-proxy", "access to nftables"} {
		if i := item(t, r, name); i.Verdict != preflight.Unknown {
			t.Errorf("%s: %+v", name, i)
		}
	}
	if i := item(t, r, "access to iptables-legacy"); !strings.Contains(i.Detail, "CAP_DAC_READ_SEARCH") {
		t.Errorf("%+v", i)
	}
	if i := item(t, r, "kube-proxy"); len(i.Evidence) > 0 {
		t.Errorf("what cannot be seen is said to be there, or not: %+v", i)
	}
	if out.ExitCode == 0 || r.Kind != "Preflight" || r.Node == "" {
		t.Error(out)
	}
}

// report returns what preflight printed with -o json.
func report(t *testing.T, out daemon.Output) *preflight.Report {
	t.Helper()
	var r preflight.Report
	if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil {
		t.Fatalf("%v: %v", err, out)
	}
	return &r
}

// TestPreflightNeedsOnlyNetAdmin runs it as root without any other capability, as
// deploy/preflight does.
func TestPreflightNeedsOnlyNetAdmin(t *testing.T) {
	h := labtest.New(t, lab.Options{Pods: 1, RemotePods: 1}).Node.Host
	labtest.Run(t, h, "", "iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES")
	labtest.Run(t, h, "add table ip calico\n", "nft", "-f", "-")
	r := report(t, daemon.RunBy(t, h, []string{
		labtest.Path(t, "setpriv"), "--bounding-set=-all,+net_admin", "--inh-caps=-all", "--ambient-caps=-all",
	}, "preflight", "-o", "json")) // the exit code depends on the machine
	for _, i := range r.Items {
		if i.Verdict == preflight.Unknown && i.Name != "access to processes" {
			t.Errorf("%+v", i)
		}
	}
	item(t, r, "kube-proxy (iptables-legacy)")
	item(t, r, "Calico (nftables)")
}

func TestExitCodeIsTheVerdict(t *testing.T) {
	h := labtest.New(t, lab.Options{Pods: 1, RemotePods: 1}).Node.Host
	if out := daemon.Run(t, h, "preflight"); out.ExitCode != 0 || !strings.HasPrefix(out.Stdout, "NAME ") {
		t.Error(out)
	}
	labtest.Run(t, h, "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n", "iptables-nft-restore")
	if out := daemon.Run(t, h, "preflight"); out.ExitCode != 1 {
		t.Error(out)
	}
	if out := daemon.Run(t, h, "preflight", "-o", "yaml"); out.ExitCode != 2 {
		t.Errorf("for an unknown format: %v", out)
	}
}
