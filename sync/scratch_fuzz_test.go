package sync

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	gocmp "github.com/google/go-cmp/cmp"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
)

// checkFromScratch compares the kernel with one that is told the end at once, in
// another order, and with what the rule set says of itself.
func (w *apiWorld) checkFromScratch() {
	have := w.read()
	again, batch := nft.Adopt(w.state.config.Rules, have, w.state.all())
	if len(batch) > 0 {
		w.Errorf("the kernel lacks\n%s", batch)
	}
	differ(w.T, "elements, -read +planned", again.Elements(), w.rules.Elements())

	fresh := newState(w.config)
	fresh.setInterfaces(w.state.interfaces)
	fresh.apply(w.standing())
	fresh.setPodRanges(w.state.config.Rules.Pods) // a node that lost its ranges still has them
	fresh.take()
	_, batch = nft.Adopt(fresh.config.Rules, nft.Tables{}, fresh.all())
	other := kerneltest.New()
	w.apply(other, batch)
	want, err := other.Read()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range model.Families {
		differ(w.T, f.String()+", -from scratch +step by step", essence(f, want[f]), essence(f, have[f]))
	}
}

// differ says how two values differ, if they do: to find that out takes much
// longer than to find that they do not.
func differ(t *testing.T, what string, a, b any) {
	t.Helper()
	if !reflect.DeepEqual(a, b) {
		same := func(a, b nft.Element) bool { return a == b }
		t.Errorf("%s\n%s", what, gocmp.Diff(a, b, gocmp.Comparer(same)))
	}
}

// essence is a table without what depends on its history: the sizes of sets, and
// which endpoint has which slot.
func essence(f model.Family, t *nft.Table) *nft.Table {
	out := nft.NewTable()
	out.Chains, out.Counter, out.Dormant = t.Chains, t.Counter, t.Dormant
	for name, s := range t.Sets {
		s.Shape.Size = 0
		out.Sets[name] = s
	}
	slots := map[string][]nft.Element{}
	for name, s := range out.Sets {
		id, _ := nft.SetNamed(f, name)
		if id.Kind < nft.Endpoints || id.Kind > nft.StickyEndpointsMany {
			continue
		}
		for _, e := range s.Elements {
			e.Key.Pick = 0
			pool := strings.TrimRight(name, "0123456789")
			slots[pool] = append(slots[pool], e)
		}
		s.Elements = nil
		out.Sets[name] = s
	}
	for pool, list := range slots {
		slices.SortFunc(list, func(a, b nft.Element) int {
			return cmp.Or(compareKeys(a.Key, b.Key), strings.Compare(valueText(a.Value), valueText(b.Value)))
		})
		out.Sets[pool] = nft.SetState{Elements: list}
	}
	return out
}

func compareKeys(a, b nft.Key) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
}

func valueText(v nft.Value) string {
	if v.Verdict == nft.Goto {
		return v.Chain.Name()
	}
	return v.Endpoint.String()
}

// checkServed expects each address and port of each Service to be held by it, or
// by another that it is told of, and to be known to the kernel.
func (w *apiWorld) checkServed() {
	held := map[model.Match]model.ServicePortName{}
	tables := w.read()
	for _, f := range w.state.services.Frontends() {
		held[f.Match] = f.Service
		if !dispatched(tables[f.Match.Family], f.Match) {
			w.Errorf("the kernel does not know %s of %s", f.Match, f.Service)
		}
	}
	lost := map[model.Conflict]struct{}{}
	for _, e := range w.said {
		s, ok := e.(SetService)
		if !ok {
			continue
		}
		for _, wish := range w.wishes(&s.Service, held) {
			holder := held[wish.Match]
			if holder == (model.ServicePortName{}) {
				w.Errorf("nobody holds %s of %s", wish.Match, wish.Loser)
			}
			if holder == wish.Loser {
				continue
			}
			wish.Winner = holder
			lost[wish] = struct{}{}
		}
	}
	if n := w.state.services.Conflicts(); n != len(lost) {
		w.Errorf("%d conflicts are told, %d claims are lost: %v", n, len(lost), lost)
	}
}

// wishes are what a Service asks for, as conflicts that it may have lost. A port
// that loses its ClusterIP has no other address either.
func (w *apiWorld) wishes(s *model.Service, held map[model.Match]model.ServicePortName) []model.Conflict {
	outside := s.LoadBalancerIPs
	if !w.config.IgnoreExternalIPs {
		outside = slices.Concat(outside, s.ExternalIPs)
	}
	var out []model.Conflict
	for _, own := range s.ClusterIPs {
		f := model.FamilyOf(own)
		for _, p := range s.Ports {
			name := model.ServicePortName{ServiceName: s.Name, Port: p.Name, Protocol: p.Protocol}
			wish := func(a netip.Addr, port uint16) {
				m := model.Match{Family: f, Addr: a, Protocol: p.Protocol, Port: port}
				out = append(out, model.Conflict{Match: m, Loser: name})
			}
			wish(own, p.Port)
			if held[out[len(out)-1].Match] != name {
				continue
			}
			for _, a := range outside {
				if model.FamilyOf(a) == f {
					wish(a, p.Port)
				}
			}
			if p.NodePort != 0 {
				wish(netip.Addr{}, p.NodePort)
			}
		}
	}
	return out
}

// dispatched reports whether the table says where connections to the match go.
func dispatched(t *nft.Table, m model.Match) bool {
	kinds := []nft.SetKind{nft.Services, nft.NoEndpointServices}
	if !m.Addr.IsValid() {
		kinds = []nft.SetKind{nft.NodePorts, nft.NoEndpointNodePorts}
	}
	return slices.ContainsFunc(kinds, func(kind nft.SetKind) bool {
		elements := t.Sets[nft.SetID{Family: m.Family, Kind: kind}.Name()].Elements
		return slices.ContainsFunc(elements, func(e nft.Element) bool {
			return e.Key == nft.Key{Addr: m.Addr, Protocol: m.Protocol, Port: m.Port}
		})
	})
}

// checkTold expects of an object that is the proxy's business to be used, or a
// reason.
func checkTold(t *testing.T, used, ours bool, errs field.ErrorList) {
	t.Helper()
	if !ours && (used || len(errs) > 0) || ours && !used && len(errs) == 0 {
		t.Errorf("used %v, the proxy's business %v, told %v", used, ours, errs)
	}
	for _, err := range errs {
		if err.Field == "" || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("no way to say what is wrong: %q", err.Error())
		}
	}
	_ = errs.ToAggregate()
}

// told are the entries of lists that errors are about: "spec.ports[1]".
type told map[string]bool

// andMore stands for all that there was no room to tell.
const andMore = "..."

func toldOf(errs field.ErrorList) told {
	out := told{}
	for _, err := range errs {
		entry, _, _ := strings.Cut(err.Field, "]")
		out[entry] = true
	}
	return out
}

// of reports whether an error is about the entry, or about the whole list.
func (t told) of(list string, i int) bool {
	return t[andMore] || t[list] || t[list+"["+strconv.Itoa(i)]
}

// checkServiceTold expects every part of a Service to be used or told of.
func checkServiceTold(t *testing.T, s *corev1.Service, out *model.Service, errs field.ErrorList) {
	told := toldOf(errs)
	for i, p := range s.Spec.Ports {
		used := slices.ContainsFunc(out.Ports, func(o model.ServicePort) bool {
			return o.Name == p.Name && int32(o.Port) == p.Port && int32(o.NodePort) == p.NodePort
		})
		if !used && !told.of("spec.ports", i) {
			t.Errorf("port %+v is neither used nor told of: %v", p, errs)
		}
	}
	for i, text := range s.Spec.ExternalIPs {
		if !usedAddr(text, out.ExternalIPs) && !told.of("spec.externalIPs", i) {
			t.Errorf("externalIPs[%d] %q is neither used nor told of: %v", i, text, errs)
		}
	}
	closed := false
	for i := range s.Spec.LoadBalancerSourceRanges {
		closed = closed || told.of("spec.loadBalancerSourceRanges", i)
	}
	if len(s.Spec.LoadBalancerSourceRanges) > 0 && len(out.SourceRanges) == 0 && len(out.LoadBalancerIPs) > 0 {
		t.Errorf("ranges %q lead to none, and open %v", s.Spec.LoadBalancerSourceRanges, out.LoadBalancerIPs)
	}
	for i, ingress := range s.Status.LoadBalancer.Ingress {
		proxy := ingress.IPMode != nil && *ingress.IPMode == corev1.LoadBalancerIPModeProxy
		idle := ingress.IP == "" || proxy || closed
		if !idle && !usedAddr(ingress.IP, out.LoadBalancerIPs) && !told.of("status.loadBalancer.ingress", i) {
			t.Errorf("ingress[%d] %q is neither used nor told of: %v", i, ingress.IP, errs)
		}
	}
}

func usedAddr(text string, used []netip.Addr) bool {
	addr, err := parseAddr(nil, text)
	return err == nil && slices.Contains(used, addr)
}

// checkSliceTold expects every endpoint and port of a slice to be used or told
// of.
func checkSliceTold(t *testing.T, s *discoveryv1.EndpointSlice, out *model.Slice, errs field.ErrorList) {
	told := toldOf(errs)
	missing := func(list string, n int) (count int) {
		for i := range n {
			if told.of(list, i) {
				count++
			}
		}
		return count
	}
	if n := len(out.Endpoints) + missing("endpoints", len(s.Endpoints)); n < len(s.Endpoints) {
		t.Errorf("of %d endpoints %d are used or told of", len(s.Endpoints), n)
	}
	if n := len(out.Ports) + missing("ports", len(s.Ports)); n < len(s.Ports) {
		t.Errorf("of %d ports %d are used or told of", len(s.Ports), n)
	}
}

func isHeadless(s *discoveryv1.EndpointSlice) bool {
	_, headless := s.Labels[labelHeadless]
	return headless
}
