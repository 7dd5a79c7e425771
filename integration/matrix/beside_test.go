package matrix

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab/labtest"
)

// A program is another program of the node that sets rules.
type program struct {
	// load sets the rules, as the program does when it starts or is reloaded.
	load func(*scene)
	// unload removes the program; if nil, its tables are deleted.
	unload func(*scene)
	// sameStart is true if a reload does all that a start does, so that a start after that of
	// kube-vmap need not be tested, too.
	sameStart bool
	// masquerades is the row of the clients whose packets it may masquerade, also those to
	// Services.
	masquerades string
	// drops is true if it may drop packets that kube-vmap would refuse: chains of the same
	// priority see a packet in the order in which they were added, the last one first.
	drops bool
	// announces is true if neighbors find addresses only by the program, which does not answer
	// all that the kernel asks.
	announces bool
	// services are further Services.
	services []daemon.Service
	// flags are further flags of kube-vmap.
	flags []string
	// check has further checks.
	check func(*testing.T, *scene)
}

// beside tests some cells of the matrix beside another program: one that was there before
// kube-vmap, which has reloaded its rules, and one that was started later. The order
// matters: of two chains of the same priority, the one that was added last sees a packet
// first.
func beside(t *testing.T, p program) {
	if kubeProxy != "" {
		t.Skip("what others do to kube-proxy is not tested")
	}
	t.Helper()
	s := newScene(t)
	p.load(s)
	cells := sampled(s.besideCells(p.services...))
	for i := range cells {
		if cells[i].from.row == p.masquerades {
			cells[i].want.source = anySource
		}
	}
	if p.drops {
		cells = slices.DeleteFunc(cells, func(c cell) bool { return c.want.refused })
	}
	if p.unload == nil {
		p.unload = (*scene).deleteOtherTables
	}
	s.start(append([]string{daemon.PodRanges, nodePortAddresses}, p.flags...)...)
	check := func(phase string) bool {
		return t.Run(phase, func(t *testing.T) {
			outer := s.t
			s.t = t
			defer func() { s.t = outer }()
			s.check(t, slices.Clone(cells))
			if p.check != nil {
				p.check(t, s)
			}
			if t.Failed() {
				t.Logf("all rules:\n%s", s.command("", "nft", "list", "ruleset"))
			}
		})
	}
	if !check("started before kube-vmap") {
		return // the others probably fail, too
	}
	p.load(s)
	if p.sameStart || !testing.Short() { // the order is that of a later start
		check("reloaded")
	}
	if !p.announces {
		t.Run("explain", func(t *testing.T) { s.explainsRandomPackets(t, cells) })
	}
	if p.sameStart {
		return
	}
	p.unload(s)
	p.load(s)
	check("started after kube-vmap")
}

// besideRows are the rows of the table of endpoints, with policies, that are tested beside
// other programs.
var besideRows = []struct {
	endpoints, choice string
	policies          []int
}{
	{"pod-1 pod-2 remote-1", "random", []int{0, 1}},
	{"pod-1 pod-2 remote-1", "affinity", []int{1}},
	{"remote-1", "random", []int{1}},
	{"", "random", []int{0}},
}

func besideServices(t *testing.T, sets []endpointSet) (services []daemon.Service) {
	t.Helper()
	all := matrixServices(sets)
	for _, row := range besideRows {
		i := slices.IndexFunc(sets, func(e endpointSet) bool { return e.endpoints == row.endpoints && e.choice == row.choice })
		if i < 0 {
			t.Fatalf("no row of endpoints %q, %s", row.endpoints, row.choice)
		}
		for _, v := range all {
			if slices.ContainsFunc(row.policies, func(j int) bool { return v.Number == serviceOf(i, j) }) {
				services = append(services, v)
			}
		}
	}
	return services
}

// besideCells puts these Services and further ones, and returns the questions to the former:
// of all kinds of clients to all kinds of frontends over all transports.
func (s *scene) besideCells(further ...daemon.Service) (all []cell) {
	s.t.Helper()
	sets := readEndpoints()
	s.cluster(daemon.ServiceCIDR(), daemon.NodeObject(s.Node, ""))
	services := besideServices(s.t, sets)
	s.put(append(services, further...)...)
	table := readFlows(s.t, "pods are detected")
	for i, set := range sets {
		for _, c := range s.cells(table, set, i) {
			if slices.ContainsFunc(services, func(v daemon.Service) bool { return v.Number == c.list.service }) {
				all = append(all, c)
			}
		}
	}
	return all
}

// otherTables returns the tables of other programs, as "ip filter".
func (s *scene) otherTables() (tables []string) {
	s.t.Helper()
	for line := range strings.Lines(s.command("", "nft", "list", "tables")) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "table ")
		if ok && !strings.Contains(name, "kube-vmap") {
			tables = append(tables, name)
		}
	}
	return tables
}

func (s *scene) deleteOtherTables() {
	s.t.Helper()
	for _, name := range s.otherTables() {
		s.command("", "nft", append([]string{"delete", "table"}, strings.Fields(name)...)...)
	}
}

// command runs a program of the machine on node-1, which must succeed, and returns its
// output.
func (s *scene) command(stdin, name string, args ...string) string {
	s.t.Helper()
	return labtest.Run(s.t, s.Node.Host, stdin, name, args...)
}

// recorded is a program whose rules are in files of testdata/beside, with their origin:
// NAME.nft for nft, NAME.ip and NAME.ip6 for iptables-restore, which removes all other rules
// from the same tables, NAME.ip46 for both in the words of IPv4, NAME.ipset for sets that
// they match.
func recorded(name string) program { return recordedFor("nft", name) }

// recordedFor is recorded for a backend of iptables, nft or legacy.
func recordedFor(backend, name string) program {
	return program{load: func(s *scene) {
		s.t.Helper()
		found, err := filepath.Glob(filepath.Join("testdata", "beside", name+".*"))
		if err != nil || len(found) == 0 {
			s.t.Fatalf("no rules of %s: %v", name, err)
		}
		ip, ip6 := "iptables-"+backend+"-restore", "ip6tables-"+backend+"-restore"
		slices.Reverse(found) // sets before the rules that match them
		for _, path := range found {
			text, err := os.ReadFile(path)
			s.must(err)
			switch filepath.Ext(path) {
			case ".nft":
				s.command(string(text), "nft", "-f", "-")
			case ".ipset":
				s.command(string(text), "ipset", "restore", "-exist")
			case ".ip":
				s.command(string(text), ip)
			case ".ip6":
				s.command(string(text), ip6)
			case ".ip46":
				s.command(string(text), ip)
				s.command(inIPv6.Replace(string(text)), ip6)
			}
		}
	}}
}

// inIPv6 makes rules of recorded programs those of IPv6: it replaces ranges, addresses, and the
// names of sets.
var inIPv6 = strings.NewReplacer(
	"10.244.0.0/16", "fd00:10:244::/48", "10.244.1.0/24", "fd00:10:244:1::/64", "10.244.1.", "fd00:10:244:1::",
	"10.96.0.0/16", "fd00:10:96::/112", "10.96.0.200", "fd00:10:96::c8", "169.254.20.10", "fd00:20::10",
	"127.0.0.0/8", "::1/128", "127.0.0.1", "::1", "192.0.2.1", "2001:db8:2::1",
	"cali40", "cali60", "ANTREA-POD-IP ", "ANTREA-POD-IP6 ", "KUBE-SRC-ALL ", "KUBE-SRC-ALL6 ",
	"KUBE-DST-PODS ", "KUBE-DST-PODS6 ", "kube-router-pod-subnets ", "kube-router-pod-subnets6 ",
	"kube-router-node-ips ", "kube-router-node-ips6 ",
)
