package diagnosis

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/eventually"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// each connects to every kind of address of a Service, from a pod, the node and outside.
func (s *scene) each(t *testing.T, of daemon.Service, times int) {
	t.Helper()
	t.Run(of.Name, func(t *testing.T) {
		daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
			for _, k := range daemon.Kinds {
				if !of.Has(k) {
					continue
				}
				for _, from := range []*lab.Host{s.Pods[0].Host, s.Node.Host, s.Outside} {
					s.ledger.ask(t, of.Name, from, w, of.AddrPort(s.Node, w.Family, k, 0), times)
				}
			}
		})
	})
	if t.Failed() {
		t.FailNow()
	}
}

func TestConnectionsAreCountedOnAllFrontends(t *testing.T) {
	s := newScene(t, 3, 1)
	k := labtest.Kernel(t, s.Node.Host)
	plain := daemon.Service{Name: "plain", Number: 1, Endpoints: s.servers, Kinds: daemon.Kinds}
	remembered := daemon.Service{Name: "remembered", Number: 2, Endpoints: s.servers, Kinds: daemon.Kinds, Affinity: time.Hour}
	local := daemon.Service{Name: "local", Number: 3, Endpoints: s.servers, Kinds: daemon.Kinds, LocalOutside: true}
	itself := daemon.Service{Name: "itself", Number: 4, Endpoints: s.servers[:1], Kinds: daemon.Kinds}
	node := daemon.Service{Name: "node", Number: 5, Endpoints: []*lab.Host{s.Node.Host}, Kinds: daemon.Kinds}
	hashed := daemon.Service{Name: "hashed", Number: 6, Endpoints: s.servers, Kinds: daemon.Kinds, Scheduler: "mh"}
	none := daemon.Service{Name: "none", Number: 7, Kinds: daemon.Kinds}
	s.folder.Put("web", plain, remembered, local, itself, node, hashed, none)
	daemon.Start(t, s.Node, s.folder, "--endpoint-metrics")
	for _, of := range []daemon.Service{plain, remembered, local, itself, node, hashed} {
		s.each(t, of, 3)
		s.ledger.check(t, "after "+of.Name, k)
	}
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) {
		for _, from := range []*lab.Host{s.Pods[1].Host, s.Node.Host, s.Outside} {
			to := none.AddrPort(s.Node, w.Family, model.KindClusterIP, 0)
			got, err := from.AskFresh(w.Protocol, netip.Addr{}, to, answer)
			if err != nil || got.Outcome != lab.Refused {
				t.Errorf("%s asks %s: %s, %v", from, to, got, err)
			}
		}
		pod := s.servers[2].AddrPort(w.Family, daemon.TargetPort)
		got, err := s.Pods[0].AskFresh(w.Protocol, netip.Addr{}, pod, answer)
		if err != nil || got.Outcome != lab.Answered {
			t.Errorf("a pod asks %s: %s, %v", pod, got, err)
		}
	})
	daemon.ForEachTransport(t, func(t *testing.T, w daemon.Transport) { // many requests are one connection
		to := plain.ClusterAddrPort(w.Family)
		flow, err := s.Outside.Flow(w.Protocol, netip.AddrPort{}, to)
		if err != nil {
			t.Fatal(err)
		}
		defer flow.Close()
		for i := range 20 {
			got, err := flow.Ask(answer)
			if err != nil || got.By == "" {
				t.Fatalf("request %d: %s, %v", i, got, err)
			}
			if i == 0 {
				s.ledger.note(plain.Name, w, to, got.By)
			}
		}
	})
	s.ledger.check(t, "with refused connections, some directly to a pod, and long ones", k)
	s.checkMetrics(t)
	total := 0
	for at, n := range s.ledger.lines {
		if s.ledger.names[at.asked] == plain.Name {
			total += int(n)
		}
	}
	for _, args := range [][]string{{"get", "svc", "plain"}, {"get", "svc", "plain", "--kernel"}} {
		if table := s.prints(args...); !strings.Contains(table, fmt.Sprintf(" %d ", total)) {
			t.Errorf("%v, want %d connections:\n%s", args, total, table)
		}
	}
}

func (s *scene) checkMetrics(t *testing.T) {
	t.Helper()
	services, endpoints := map[string]uint64{}, map[string]uint64{}
	for at, n := range s.ledger.lines {
		labels := fmt.Sprintf("ip_family=%q,port=\"%s-0\",protocol=%q,service_name=%q,service_namespace=\"default\"",
			at.asked.Family, at.asked.Protocol, strings.ToUpper(at.asked.Protocol.String()), s.ledger.names[at.asked])
		services[labels] += n
		endpoints[fmt.Sprintf("endpoint_address=%q,", at.endpoint)+labels] += n
	}
	// Between readings of the kernel, at least a second apart, metrics stay.
	eventually.Succeeds(t, "metrics", func() (err error) {
		page, failed := s.Node.Get("http://127.0.0.1:10249/metrics", answer)
		if failed != nil {
			return failed
		}
		for name, want := range map[string]map[string]uint64{"service": services, "endpoint": endpoints} {
			found := 0
			for _, m := range regexp.MustCompile(`(?m)^kubevmap_`+name+`_connections_total\{(.*)\} (\S+)$`).FindAllStringSubmatch(page, -1) {
				if got, failed := strconv.ParseFloat(m[2], 64); failed != nil || got != float64(want[m[1]]) {
					err = errors.Join(err, fmt.Errorf("%s: the metric is %s, want %d", m[1], m[2], want[m[1]]))
				}
				found++
			}
			if found != len(want) {
				err = errors.Join(err, fmt.Errorf("%d series of %ss, want %d", found, name, len(want)))
			}
		}
		return err
	})
}

func TestCountsSurviveScalingAndRestarts(t *testing.T) {
	s := newScene(t, 4, 0)
	k := labtest.Kernel(t, s.Node.Host)
	web := daemon.Service{Name: "web", Number: 1, Endpoints: s.servers[:2], Kinds: daemon.Kinds}
	s.folder.Put("web", web)
	d := daemon.Start(t, s.Node, s.folder)
	step := func(when string) {
		t.Helper()
		s.each(t, web, 2)
		s.ledger.check(t, when, k)
	}
	step("at first")
	for _, endpoints := range [][]*lab.Host{s.servers, s.servers[1:], s.servers[3:], {s.servers[0], s.servers[3], s.servers[2]}} {
		web.Endpoints = endpoints
		d.After(func() { s.folder.Put("web", web) })
		step(fmt.Sprintf("with endpoints %v", endpoints))
	}
	d.Stop()
	step("without the proxy")
	d = daemon.Start(t, s.Node, s.folder)
	step("after a restart")
	d.Kill()
	step("after it was killed")
	d = daemon.Start(t, s.Node, s.folder)
	step("after that")

	d.Stop()
	d = daemon.Start(t, s.Node, s.folder, "--count-connections=false")
	have, err := k.Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		set := nft.SetID{Family: f, Kind: nft.SetConnections}.Name()
		if _, exists := have[f].Sets[set]; exists {
			t.Errorf("without counting, the tables have the set %s", set)
		}
	}
	s.ledger.lines = map[pair]uint64{}
	s.each(t, web, 1)
	s.ledger.lines = map[pair]uint64{}
	s.ledger.check(t, "without counting", k)
	d.Stop()
	daemon.Start(t, s.Node, s.folder)
	step("with counting again")
}
