package components

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"kube-vmap/cmd/components"
	"kube-vmap/cmd/inspect/preflight"
	"kube-vmap/integration/daemon/built"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kubeproxy"
)

func TestMain(m *testing.M) { os.Exit(built.Main(m)) }

// check runs preflight on the host, with no other processes than these.
func check(t *testing.T, h *lab.Host, processes ...string) (r *preflight.Report) {
	t.Helper()
	proc := t.TempDir()
	for i, name := range append([]string{"kthreadd"}, processes...) {
		dir := filepath.Join(proc, string(rune('2'+i)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "comm"), []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The node's own settings are not those of the machine.
	for name, text := range map[string]string{
		"sys/net/ipv4/ip_forward":          "1\n",
		"sys/net/ipv6/conf/all/forwarding": "1\n",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Do(func() error {
		r = preflight.Run(t.Context(), preflight.Config{Node: components.Config{Proc: proc, CNIConfig: proc + "/none"}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

// item returns the item of that name.
func item(t *testing.T, r *preflight.Report, name string) preflight.Item {
	t.Helper()
	i := slices.IndexFunc(r.Items, func(i preflight.Item) bool { return i.Name == name })
	if i < 0 {
		t.Fatalf("no item %q in %+v", name, r.Items)
	}
	return r.Items[i]
}

func TestEmptyNodeIsFine(t *testing.T) {
	r := check(t, labtest.Alone(t))
	if r.Verdict != components.Fine {
		t.Errorf("%+v", r)
	}
	if i := item(t, r, "kube-proxy"); i.Detail != "" || i.Evidence[0] != "none" {
		t.Errorf("kube-proxy: %+v", i)
	}
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
	nftables := func(t *testing.T, h *lab.Host) { labtest.Run(t, h, nftablesMode, "nft", "-f", "-") }
	legacyRules := func(t *testing.T, h *lab.Host) { iptables(t, h, "legacy") }
	nftRules := func(t *testing.T, h *lab.Host) { iptables(t, h, "nft") }
	for _, tc := range []struct {
		name, item, detail string
		verdict            components.Verdict
		processes          []string
		prepare            func(*testing.T, *lab.Host)
	}{
		{"nftables, left over", "kube-proxy (nftables)", "left over: ", components.Fine, nil, nftables},
		{"nftables, running", "kube-proxy (nftables)", "runs (process 3): kube-vmap waits", components.Fine, []string{"kube-proxy"}, nftables},
		{"nftables, suspended", "kube-proxy (nftables)", "suspended: ", components.Fine, nil, func(t *testing.T, h *lab.Host) {
			nftables(t, h)
			suspend(t, h)
		}},
		{"iptables-nft, left over", "kube-proxy (iptables-nft)", "left over: ", components.Fine, nil, nftRules},
		{"iptables-legacy, left over", "kube-proxy (iptables-legacy)", components.Get(components.KubeProxyLegacy).Advice, components.Conflict, nil, legacyRules},
		{"iptables-nft, suspended", "kube-proxy (iptables-nft)", "suspended: ", components.Fine, nil, func(t *testing.T, h *lab.Host) {
			nftRules(t, h)
			suspend(t, h)
		}},
		{"went back", "kube-proxy (nftables)", "kube-vmap went back", components.Needs, nil, func(t *testing.T, h *lab.Host) {
			nftables(t, h)
			labtest.Run(t, h, `add table inet kube-vmap-takeover { comment "returned at=2026-11-22T18:10:00Z reason=NotReady"; }`+"\n", "nft", "-f", "-")
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := labtest.Alone(t)
			tc.prepare(t, h)
			i := item(t, check(t, h, tc.processes...), tc.item)
			if !strings.HasPrefix(i.Detail, tc.detail) || i.Verdict != tc.verdict {
				t.Errorf("%+v, want %s, %s", i, tc.verdict, tc.detail)
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
	k, err := kernel.Open(kernel.Config{NetNS: h.FD()})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if _, err := k.Apply(found.Suspend()); err != nil {
		t.Fatal(err)
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

func TestDroppingPolicyNeedsARuleThatAccepts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, rules string
		want        components.Verdict
	}{
		{"accept", "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n", components.Fine},
		{"drop", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n", components.Needs},
		{
			"kube-proxy and Docker only",
			"*filter\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\n:DOCKER-USER - [0:0]\n-A FORWARD -j KUBE-FORWARD\n-A FORWARD -j DOCKER-USER\n" +
				"-A KUBE-FORWARD -j ACCEPT\nCOMMIT\n",
			components.Needs,
		},
		{"CNI plugin", "*filter\n:FORWARD DROP [0:0]\n:cali-FORWARD - [0:0]\n-A FORWARD -j cali-FORWARD\nCOMMIT\n", components.Fine},
		{"a rule", "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i cni0 -j ACCEPT\nCOMMIT\n", components.Fine},
	} {
		legacy := preflight.Unknown
		if tc.want == components.Fine && !strings.Contains(tc.rules, "-A") {
			legacy = components.Fine // nothing is in effect
		}
		for program, want := range map[string]components.Verdict{
			"iptables-nft-restore": tc.want, "ip6tables-nft-restore": tc.want, "iptables-legacy-restore": legacy, "ip6tables-legacy-restore": legacy,
		} {
			h := labtest.Alone(t)
			labtest.Run(t, h, tc.rules, program)
			if i := item(t, check(t, h), "forward policy"); i.Verdict != want {
				t.Errorf("%s, %s: %+v", tc.name, program, i)
			}
		}
	}
}

// TestPreflightChangesNothing compares the listing before and after, with the program itself.
func TestPreflightChangesNothing(t *testing.T) {
	h := labtest.Alone(t)
	iptables(t, h, "nft")
	labtest.Run(t, h, nftablesMode, "nft", "-f", "-")
	before := labtest.Run(t, h, "", "nft", "list", "ruleset")
	if _, code := command(t, h, nil, "-o", "wide"); code > 1 {
		t.Errorf("exit code %d", code)
	}
	if after := labtest.Run(t, h, "", "nft", "list", "ruleset"); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// command runs kube-vmap preflight on the host and returns its output and exit code.
func command(t *testing.T, h *lab.Host, as *syscall.SysProcAttr, args ...string) (stdout string, code int) {
	t.Helper()
	path, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.Command(t.Context(), path, append([]string{"preflight"}, args...)...)
	var out, stderr strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &out, &stderr, as
	_ = cmd.Run() // the exit code is checked
	if stderr.Len() > 0 {
		t.Logf("stderr: %s", &stderr)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func TestPreflightWithoutRootNamesWhatItCannotSee(t *testing.T) {
	h := labtest.Alone(t)
	text, code := command(t, h, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}, "-o", "json")
	var r preflight.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, name := range []string{"nftables", "forward policy", "kube-proxy", "access to nftables"} {
		if i := item(t, &r, name); i.Verdict != preflight.Unknown {
			t.Errorf("%s: %+v", name, i)
		}
	}
	if code == 0 || r.Kind != "Preflight" || r.Node == "" {
		t.Errorf("exit code %d of %+v", code, r)
	}
}

// TestPreflightNeedsOnlyNetAdmin runs it as root without any other capability, as
// deploy/preflight does.
func TestPreflightNeedsOnlyNetAdmin(t *testing.T) {
	h := labtest.Alone(t)
	labtest.Run(t, h, "", "iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES")
	labtest.Run(t, h, "add table ip calico\n", "nft", "-f", "-")
	path, err := built.Path()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.Command(t.Context(), labtest.Path(t, "setpriv"),
		"--bounding-set=-all,+net_admin", "--inh-caps=-all", "--ambient-caps=-all", path, "preflight", "-o", "json")
	text, _ := cmd.Output() // the exit code depends on the machine
	var r preflight.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for _, i := range r.Items {
		if i.Verdict == preflight.Unknown && i.Name != "access to processes" {
			t.Errorf("%+v", i)
		}
	}
	item(t, &r, "kube-proxy (iptables-legacy)")
	item(t, &r, "Calico (nftables)")
}

func TestExitCodeIsTheVerdict(t *testing.T) {
	h := labtest.Alone(t)
	for _, sysctl := range []string{"/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"} {
		if err := h.Do(func() error { return os.WriteFile(sysctl, []byte("1"), 0o644) }); err != nil {
			t.Fatal(err)
		}
	}
	if text, code := command(t, h, nil); code != 0 || !strings.HasPrefix(text, "NAME ") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	labtest.Run(t, h, "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n", "iptables-nft-restore")
	if text, code := command(t, h, nil); code != 1 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if _, code := command(t, h, nil, "-o", "yaml"); code != 2 {
		t.Errorf("exit code %d for an unknown format", code)
	}
}
