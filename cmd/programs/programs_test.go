package programs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/nft/foreign/dump"
	"kube-vmap/nft/foreign/simulate"
)

// write writes a file below a temporary directory.
func write(t *testing.T, dir, path, text string) {
	t.Helper()
	path = filepath.Join(dir, path)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestProcessesAreFoundByName(t *testing.T) {
	proc := t.TempDir()
	for path, text := range map[string]string{
		"2/comm": "kthreadd\n", "17/comm": "kube-proxy\n", "18/comm": "cilium-agent\n", "19/comm": "cilium-agent\n",
		"20/status": "a process that ends has no comm", "sys/comm": "tailscaled\n", "21/comm": "kube-proxy-not\n",
	} {
		write(t, proc, path, text)
	}
	n := &Node{}
	if err := n.readProcesses(proc); err != nil {
		t.Error(err)
	}
	got := ""
	for _, f := range Find(n) {
		got += f.ID + ": " + strings.Join(f.Evidence, "; ") + "\n"
	}
	const want = "kube-proxy: process kube-proxy (17)\ncilium: process cilium-agent (18), cilium-agent (19)\n"
	if got != want {
		t.Errorf("found\n%swant\n%s", got, want)
	}
}

// inNetwork adds processes with links to their network namespaces, as proc has them.
func inNetwork(t *testing.T, proc, network string, names map[string]string) {
	t.Helper()
	for pid, name := range names {
		write(t, proc, pid+"/comm", name+"\n")
		dir := filepath.Join(proc, pid, "ns")
		must(t, errors.Join(os.Mkdir(dir, 0o755), os.Symlink(network, filepath.Join(dir, "net"))))
	}
}

func TestProcessesOfOtherNetworksDoNotCount(t *testing.T) {
	proc := t.TempDir()
	inNetwork(t, proc, "net:[1]", map[string]string{"thread-self": "test", "18": "kube-proxy"})
	inNetwork(t, proc, "net:[2]", map[string]string{"17": "kube-proxy", "19": "ztunnel"}) // which runs in a pod
	write(t, proc, "20/comm", "kube-proxy")                                               // whose network is not visible
	n := &Node{}
	_ = n.readProcesses(proc) // there is no kthreadd
	found := Find(n)
	if here := slices.DeleteFunc(slices.Clone(n.Processes), func(p Process) bool { return !p.Here }); len(here) != 1 || here[0].PID != 18 {
		t.Errorf("known to be here: %+v", here)
	}
	if len(found) != 2 || found[0].Evidence[0] != "process kube-proxy (18), kube-proxy (20)" || found[1].ID != "istio-ambient" {
		t.Errorf("found %+v of %+v", found, n.Processes)
	}
}

func TestProcessesOfAContainerAreNotTheNodes(t *testing.T) {
	proc := t.TempDir()
	write(t, proc, "1/comm", "kube-vmap\n")
	if err := new(Node).readProcesses(proc); err == nil {
		t.Error("a container's processes count as the node's")
	}
}

// TestProcessesOfANodeThatIsAContainerAreAll has a node of kind: its PID namespace has no
// threads of the kernel. A container runtime of a pod does not count.
func TestProcessesOfANodeThatIsAContainerAreAll(t *testing.T) {
	for name, test := range map[string]struct {
		network string
		known   bool
	}{"kubelet": {"net:[1]", true}, "containerd-shim": {"net:[1]", true}, "dockerd": {"net:[2]", false}} {
		proc := t.TempDir()
		inNetwork(t, proc, "net:[1]", map[string]string{"thread-self": "test", "1": "systemd"})
		inNetwork(t, proc, test.network, map[string]string{"90": name})
		n := &Node{}
		if err := n.readProcesses(proc); (err == nil) != test.known || n.Nested != test.known {
			t.Errorf("%s: %v, %+v", name, err, n)
		}
	}
}

func TestPluginsAreReadFromTheCNIConfiguration(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"10-calico.conflist": `{"name": "k8s", "plugins": [{"type": "calico"}, {"type": "portmap", "snat": true}]}`,
		"20-bridge.conf":     `{"type": "bridge"}`,
		"30-broken.conf":     `{"type": `,
		"40-list.json":       `["bridge"]`,
		"50-null.conf":       `null`,
		"calico-kubeconfig":  `{"type": "cilium-cni"}`,
		"60-dir.conf/file":   "",
	} {
		write(t, dir, path, text)
	}
	plugins, err := readPlugins(dir)
	if err == nil || !strings.Contains(err.Error(), "30-broken.conf") || !strings.Contains(err.Error(), "40-list.json") {
		t.Errorf("error %v", err)
	}
	var types []string
	for _, p := range plugins {
		types = append(types, p.name)
	}
	if want := []string{"calico", "portmap", "bridge"}; !slices.Equal(types, want) {
		t.Errorf("types %v, want %v", types, want)
	}
	if _, err := readPlugins(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a node without the directory: %v", err)
	}
}

// TestModeIsTheFirstThatHasASign has the tables and interfaces of each mode of Calico.
func TestModeIsTheFirstThatHasASign(t *testing.T) {
	chains := dump.Table{Family: "ip", Name: "filter", Chains: []dump.Chain{{Chain: simulate.Chain{Name: "cali-INPUT"}}}}
	own := dump.Table{Family: "ip", Name: "calico"}
	for _, tc := range []struct {
		want string
		node Node
	}{
		{"calico", Node{left: names("interface", "cali123")}},
		{"calico-iptables", Node{left: names("interface", "cali123"), Tables: []dump.Table{chains}}},
		{"calico-nftables", Node{Tables: []dump.Table{chains, own}}},
		{"calico-ebpf", Node{left: names("interface", "bpfin.cali", "cali1"), Tables: []dump.Table{own}}},
	} {
		found := Find(&tc.node)
		if len(found) != 1 || found[0].ID != tc.want {
			t.Errorf("%+v: found %+v, want %s", tc.node, found, tc.want)
		}
		if !Has(found, Calico) || Has(found, KubeProxy) {
			t.Errorf("%s: Calico %t, kube-proxy %t", tc.want, Has(found, Calico), Has(found, KubeProxy))
		}
	}
}

func TestEverySignIsValidAndFindsItsComponent(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if seen[c.ID] || c.ID == "" || c.Name == "" || !slices.Contains([]Verdict{Fine, Partial, Needs, Conflict}, c.Verdict) {
			t.Errorf("%+v is incomplete or there twice", c)
		}
		seen[c.ID] = true
	}
	for _, c := range All() {
		if len(c.Signs) == 0 {
			t.Errorf("%s has no sign", c.ID)
		}
		for _, s := range c.Signs {
			if found := Find(s.example()); !slices.ContainsFunc(found, func(f Finding) bool { return f.ID == c.ID }) {
				t.Errorf("%s is not found by %s: %+v", c.ID, s, found)
			}
		}
	}
}

// names returns what some names of a kind leave.
func names(kind string, all ...string) map[string][]trace {
	left := map[string][]trace{}
	for _, name := range all {
		left[kind] = append(left[kind], trace{name: name})
	}
	return left
}

func (s sign) example() *Node {
	kind, name := s.split()
	name = strings.ReplaceAll(name, "*", "1")
	n := &Node{}
	switch kind {
	case "table":
		family, rest, ok := strings.Cut(name, "/")
		if !ok {
			family, rest = "inet", name
		}
		n.Tables = []dump.Table{{Family: family, Name: rest}}
	case "chain", "nft-chain", "legacy-chain":
		in, chain, ok := strings.Cut(name, "/")
		if !ok {
			in, chain = "nat", name
		}
		n.Tables = []dump.Table{{Family: "ip6", Name: in, Legacy: kind == "legacy-chain", Chains: []dump.Chain{{Chain: simulate.Chain{Name: chain}}}}}
	case "interface", "plugin", "file":
		n.left = names(kind, name)
	case "process", "pod-process":
		n.Processes = []Process{{PID: 1, Name: name, Elsewhere: kind == "pod-process"}}
	case "port":
		n.Ports = []uint16{10249, 10256}
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestObstacle(t *testing.T) {
	table := func(family, name string) Node {
		return Node{Tables: []dump.Table{{Family: family, Name: name, Chains: []dump.Chain{{Hook: "forward"}}}}}
	}
	pod := func(process string) Node { return Node{Processes: []Process{{PID: 7, Name: process, Elsewhere: true}}} }
	for name, test := range map[string]struct {
		node Node
		want string // part of the reason; empty for none
	}{
		"alone":               {Node{}, ""},
		"flannel on a bridge": {Node{left: names("interface", "flannel.1", "cni0")}, ""},
		"our rule set":        {table("ip", "kube-vmap"), ""},
		"our fast path":       {table("inet", "kube-vmap-fast-path"), ""},
		"a table of iptables": {table("ip", "filter"), ""},
		"Calico":              {Node{left: names("interface", "cali0123")}, "Calico"},
		"Cilium":              {Node{left: names("interface", "cilium_host")}, "Cilium"},
		"firewalld":           {table("inet", "firewalld"), "firewalld"},
		"an unknown table":    {table("inet", "site"), "site"},
		"unreadable tables":   {Node{Unseen: []Unseen{{NFTables, errors.New("no permission")}}}, "no permission"},
		"unreadable iptables": {Node{Unseen: []Unseen{{LegacyTables, errors.New("no permission")}}}, "no permission"},
		"a process":           {Node{Processes: []Process{{PID: 7, Name: "calico-node", Here: true}}}, "Calico"},
		"a mesh on the node":  {Node{Processes: []Process{{PID: 7, Name: "ztunnel", Here: true}}}, "Istio"},
		"rules of a mesh":     {table("inet", "istio-ambient-nat"), "Istio"},
		"a pod's process":     {pod("calico-node"), ""},
		"a mesh in a pod":     {pod("ztunnel"), ""},
		"a sidecar":           {pod("pilot-agent"), ""},
		"another sidecar":     {pod("linkerd2-proxy"), ""},
		"an unknown network":  {Node{Processes: []Process{{PID: 7, Name: "kube-vip"}}}, ""},
		"unseen processes":    {Node{Unseen: []Unseen{{Processes, errOwnProcesses}}}, ""},
	} {
		if got := Obstacle(&test.node); !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
