package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/exit"
	"kube-vmap/cmd/inspect/shadow"
	"kube-vmap/integration/daemon"
	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel"
	"kube-vmap/nft/kernel/kubeproxy"
)

// A fault changes kube-proxy's rules of one Service port.
type fault struct {
	service string
	seed    func(*theirs)
	kind    string // of the difference that must be found
	text    string // in it
}

// expected is the difference that must be found for a fault.
type expected struct{ service, kind, text string }

// faults are one for each Service, so that each must be named.
var faults = []fault{
	{"swapped", func(s *theirs) { // an element leads to another Service's chain
		s.replaceElement("service-ips", s.address(model.KindClusterIP), "goto "+s.chain("service", "other"))
	}, shadow.KindEndpoints, "only here"},
	{"lacking", func(s *theirs) { // an endpoint is missing
		s.replaceMap(1)
	}, shadow.KindEndpoints, "only here"},
	{"uneven", func(s *theirs) { // one endpoint twice
		s.replaceMap(4)
	}, shadow.KindShares, "25 %"},
	{"marked", func(s *theirs) { // external addresses are no longer masqueraded
		external, service := s.chain("external", "marked"), s.chain("service", "marked")
		s.nft("flush chain " + s.table + " " + external)
		s.nft("add rule " + s.table + " " + external + " goto " + service)
	}, shadow.KindMasquerade, "sees the client"},
	{"ranged", func(s *theirs) { // another source range
		firewall := s.chain("firewall", "ranged")
		narrow := [...]string{model.IPv4: "ip saddr != { 198.51.100.0/25 }", model.IPv6: "ip6 saddr != { 2001:db8:9::/49 }"}
		s.nft("flush chain " + s.table + " " + firewall)
		s.nft("add rule " + s.table + " " + firewall + " " + narrow[s.family] + " drop")
	}, shadow.KindSourceRanges, "dropped"},
	{"nothing", func(s *theirs) { // connections to no endpoint are not refused
		s.nft("delete element " + s.table + " no-endpoint-services { " + s.address(model.KindExternalIP) + " }")
	}, shadow.KindVerdict, "rejected"},
	{"forgetful", func(s *theirs) { // an endpoint's clients are not remembered
		chain := s.firstChain("endpoint", "forgetful")
		rule := regexp.MustCompile(`update .* # handle (\d+)`).FindStringSubmatch(s.nft("-a list chain " + s.table + " " + chain))
		s.nft("delete rule " + s.table + " " + chain + " handle " + rule[1])
	}, shadow.KindAffinity, "none"},
	{"ignored", func(s *theirs) { // a remembered endpoint is not used
		chain := s.chain("service", "ignored")
		rule := regexp.MustCompile(`saddr @affinity.* # handle (\d+)`).FindStringSubmatch(s.nft("-a list chain " + s.table + " " + chain))
		s.nft("delete rule " + s.table + " " + chain + " handle " + rule[1])
	}, shadow.KindAffinity, "not used"},
	{"itself", func(s *theirs) { // a pod that reaches itself is not masqueraded
		pod := s.Pods[0].Addr(s.family).String()
		s.nft(fmt.Sprintf("delete element %s hairpin-connections { %s . %s . tcp . 8080 }", s.table, pod, pod))
	}, shadow.KindMasquerade, "sees the client"},
	{"unserved", func(s *theirs) { // a node port is missing
		port := regexp.MustCompile(`tcp \. (\d+) : goto ` + s.chain("external", "unserved")).FindStringSubmatch(s.nft("list map " + s.table + " service-nodeports"))
		s.nft("delete element " + s.table + " service-nodeports { tcp . " + port[1] + " }")
	}, shadow.KindVerdict, "not translated"},
}

// faultyScene returns a Service for each fault, and one that others lead to.
func faultyScene(names []string) []daemon.Service {
	list := []daemon.Service{{Name: "other", EndpointSpec: "remote-2"}}
	for _, name := range names {
		s := daemon.Service{Name: name, EndpointSpec: everywhere}
		switch name {
		case "ranged":
			s.Sources = []string{"198.51.100.0/24", "2001:db8:9::/48"}
		case "nothing":
			s.EndpointSpec = ""
		case "forgetful", "ignored":
			s.Affinity = time.Minute
		case "itself":
			s.EndpointSpec = "pod-1"
		}
		list = append(list, s)
	}
	number(list)
	for i := range list {
		list[i].ServicePorts = daemon.EveryProtocol("", daemon.Port, daemon.TargetPort, 31000+i)
	}
	return list
}

// theirs are kube-proxy's rules of one family and Service.
type theirs struct {
	*rig
	family  model.Family
	table   string
	service daemon.Service
}

// chain returns the name of a chain of a Service's TCP port.
func (s *theirs) chain(kind, service string) string {
	return s.find(regexp.MustCompile(`\b` + kind + `-[A-Z2-7]{8}-default/` + service + `/tcp/tcp`))
}

// firstChain returns the name of a chain of one of its endpoints.
func (s *theirs) firstChain(kind, service string) string {
	return s.find(regexp.MustCompile(`\b` + kind + `-[A-Z2-7]{8}-default/` + service + `/tcp/tcp__[^\s"]+`))
}

func (s *theirs) find(name *regexp.Regexp) string {
	s.t.Helper()
	found := name.FindString(s.nft("list table " + s.table))
	if found == "" {
		s.t.Fatalf("there is no chain %s", name)
	}
	return found
}

// address is the key of one of the Service's addresses.
func (s *theirs) address(k model.Kind) string {
	return s.service.Addr(s.family, k).String() + " . tcp . 80"
}

func (s *theirs) replaceElement(name, key, value string) {
	s.nft(fmt.Sprintf("delete element %s %s { %s }", s.table, name, key))
	s.nft(fmt.Sprintf("add element %s %s { %s : %s }", s.table, name, key, value))
}

// replaceMap replaces the rule that picks an endpoint by one with some of the pods.
func (s *theirs) replaceMap(n int) {
	all := []netip.Addr{
		s.Pods[0].Addr(s.family), s.Pods[1].Addr(s.family), s.RemotePods[0].Addr(s.family), s.RemotePods[1].Addr(s.family),
	}
	var elements []string
	var total int
	if n == 4 {
		all, total = append(all, all[0]), 5
	} else {
		all, total = all[n:], 3
	}
	for i, a := range all {
		elements = append(elements, fmt.Sprintf("%d : %s . 8080", i, a))
	}
	chain := s.chain("service", s.service.Name)
	s.nft("flush chain " + s.table + " " + chain)
	s.nft(fmt.Sprintf("add rule %s %s meta l4proto tcp dnat %s to numgen random mod %d map { %s }",
		s.table, chain, strings.Fields(s.table)[0], total, strings.Join(elements, ", ")))
}

// TestEveryFaultIsFoundAndNamed changes a rule of each of several Services, in both families, which
// are suspended then.
func TestEveryFaultIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range faults {
		names = append(names, f.service)
	}
	services := faultyScene(names)
	r := newRig(t, services)
	if report, _ := r.shadow(); len(unintended(report)) > 0 {
		t.Fatalf("before: %q", unintended(report))
	}
	r.stop()
	var want []expected
	for i, fault := range faults {
		for _, f := range model.Families {
			fault.seed(&theirs{rig: r, family: f, table: nft.FamilyName(f) + " kube-proxy", service: services[i+1]})
		}
		want = append(want, expected{fault.service + ":tcp", fault.kind, fault.text})
	}
	r.wantOnly(want)
}

// wantOnly suspends kube-proxy's rules, compares, and checks that each of the expected differences is
// found in both families, and none of another Service.
func (r *rig) wantOnly(want []expected) {
	r.t.Helper()
	r.suspend()
	report, code := r.shadow()
	seeded := map[string]bool{}
	for _, e := range want {
		name := "default/" + e.service
		seeded[name] = true
		for _, f := range model.Families {
			if !slices.ContainsFunc(report.Differences, func(d shadow.Difference) bool {
				return d.Service == name && d.Kind == e.kind && d.Family == f.String() && strings.Contains(d.Ours+" / "+d.Theirs, e.text)
			}) {
				r.t.Errorf("%s: no difference of kind %s in %s", e.service, e.kind, f)
			}
		}
	}
	for _, d := range report.Differences {
		if !seeded[d.Service] {
			r.t.Errorf("%s differs without a fault: %+v", d.Service, d)
		}
	}
	if code != 1 || len(report.Dormant) != len(model.Families) || !strings.HasPrefix(report.Mode, r.mode()) {
		r.t.Errorf("mode %s, exit code %d, dormant %v", report.Mode, code, report.Dormant)
	}
	if r.t.Failed() {
		r.t.Logf("%s", strings.Join(unintended(report), "\n"))
	}
}

// TestRulesForAllServicesAreCompared removes rules that all Services need, and adds what
// belongs to none.
func TestRulesForAllServicesAreCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t, []daemon.Service{{Name: "plain", Number: 1, EndpointSpec: everywhere, Kinds: daemon.Kinds}})
	r.stop()
	stale := [...]string{model.IPv4: "198.51.100.99", model.IPv6: "2001:db8:e::99"}
	for _, f := range model.Families {
		table := nft.FamilyName(f) + " kube-proxy"
		r.nft("flush chain " + table + " masquerading")
		r.nft("flush chain " + table + " cluster-ips-check")
		r.nft("add element " + table + " no-endpoint-services { " + stale[f] + " . udp . 53 : drop }")
	}
	report, _ := r.shadow()
	for _, f := range model.Families {
		for what, kind := range map[string]string{
			"unused port": shadow.KindVerdict, stale[f]: shadow.KindVerdict, ":80/tcp": shadow.KindMasquerade,
		} {
			if !slices.ContainsFunc(report.Differences, func(d shadow.Difference) bool {
				return strings.Contains(d.Frontend, what) && d.Kind == kind && d.Family == f.String()
			}) {
				t.Errorf("no difference of kind %s at %s in %s:\n%s", kind, what, f, strings.Join(unintended(report), "\n"))
			}
		}
	}
}

// suspend suspends kube-proxy's rules. In iptables mode it adds the marker, too, which must not
// count as kube-proxy's nftables mode.
func (r *rig) suspend() {
	r.t.Helper()
	found, err := kubeproxy.Find(r.Node.FD())
	r.must(err)
	k, err := kernel.Open(kernel.Config{NetNS: r.Node.FD()})
	r.must(err)
	_, err = k.Apply(found.Suspend())
	r.must(errors.Join(err, k.Close()))
	for _, f := range model.Families {
		if r.backend != "" {
			r.nft("add table " + nft.FamilyName(f) + " kube-proxy")
			r.nft("add chain " + nft.FamilyName(f) + " kube-proxy marker")
		}
	}
}

// TestRulesOfADormantTableAreCompared compares rules that see no packets, with manifests.
func TestRulesOfADormantTableAreCompared(t *testing.T) {
	t.Parallel()
	r := newRig(t, []daemon.Service{{Name: "plain", Number: 1, EndpointSpec: everywhere, Kinds: daemon.Kinds}})
	r.stop()
	for _, f := range model.Families {
		r.nft("add table " + nft.FamilyName(f) + " kube-proxy { flags dormant ; }")
	}
	r.folder.WriteObjects("all", r.objects...)
	report, code := r.shadow("--master=", "--manifests="+r.folder.Dir())
	if code != 0 || !slices.Equal(report.Dormant, []string{"IPv4", "IPv6"}) {
		t.Errorf("exit code %d, dormant %v:\n%s", code, report.Dormant, strings.Join(unintended(report), "\n"))
	}
	for _, f := range model.Families {
		if list := r.nft("list table " + nft.FamilyName(f) + " kube-proxy"); !strings.Contains(list, "dormant") {
			t.Errorf("the table of %s is awake", f)
		}
		r.nft("delete table " + nft.FamilyName(f) + " kube-proxy")
	}
	out := daemon.Run(t, r.Node.Host, "shadow", "--once", "--manifests="+r.folder.Dir(), "--hostname-override=node-1")
	if out.ExitCode != exit.Trouble || !strings.Contains(out.Stderr, shadow.ErrNoRules.Error()) {
		t.Errorf("without kube-proxy: %s", out)
	}
	if text, err := r.command("iptables-legacy", "-t", "nat", "-N", "KUBE-SERVICES"); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	out = daemon.Run(t, r.Node.Host, "shadow", "--once", "--manifests="+r.folder.Dir(), "--hostname-override=node-1")
	if out.ExitCode != exit.Trouble || !strings.Contains(out.Stderr, shadow.ErrLegacy.Error()) {
		t.Errorf("with rules of iptables-legacy: %s", out)
	}
	out = daemon.Run(t, r.Node.Host, "shadow", "--once", "--timeout=100ms", "--master=http://127.0.0.1:1", "--hostname-override=node-1")
	if out.ExitCode != exit.Trouble || !strings.Contains(out.Stderr, "not loaded within 100ms") {
		t.Errorf("without an API server: %s", out)
	}
}
