package page

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
	"kube-vmap/model"
)

// away forwards to port 10249 on loopback in a host's namespace, like `kubectl port-forward`.
func away(t *testing.T, h *lab.Host) string {
	t.Helper()
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:10249"})
	to.Transport = &http.Transport{DialContext: h.DialContext}
	return serve(t, to)
}

// everything has Services of all kinds, policies and schedulers.
func everything(servers []*lab.Host, remote []*lab.Host) []daemon.Service {
	kinds := []model.Kind{model.KindNodePort, model.KindExternalIP, model.KindLoadBalancerIP}
	all := append(servers[:len(servers):len(servers)], remote...)
	return []daemon.Service{
		{Name: "plain", Number: 1, Kinds: kinds, Endpoints: all},
		{Name: "local", Number: 2, Kinds: kinds, Endpoints: all, LocalOutside: true, LocalInside: true},
		{Name: "elsewhere", Number: 3, Kinds: kinds, Endpoints: remote, LocalOutside: true, LocalInside: true},
		{Name: "no-clients", Number: 4, Kinds: kinds},
		{Name: "turns", Number: 5, Kinds: kinds, Endpoints: all, Scheduler: "rr"},
		{Name: "source", Number: 6, Endpoints: all, Scheduler: "sh"},
		{Name: "table", Number: 7, Endpoints: all, Scheduler: "mh"},
		{Name: "sticky", Number: 8, Kinds: kinds, Endpoints: all, Affinity: time.Hour, LocalOutside: true},
		{Name: "ranges", Number: 9, Kinds: kinds, Endpoints: all, LocalOutside: true, Sources: []string{"192.0.2.0/24", "2001:db8::/32"}},
	}
}

// TestDrawnNamesExistInTheKernel runs every command on the page, in both families and for all
// protocols, and looks for every name in the picture.
func TestDrawnNamesExistInTheKernel(t *testing.T) {
	t.Parallel()
	l := labtest.New(t, lab.Options{Pods: 2, RemotePods: 2})
	var here, there []*lab.Host
	for i := range l.Pods {
		here, there = append(here, l.Pods[i].Host), append(there, l.RemotePods[i].Host)
	}
	folder := daemon.NewFolder(t, l)
	services := everything(here, there)
	folder.Put("services", services...)
	daemon.Start(t, l.Node, folder, "--status-page")
	server := away(t, l.Node.Host)

	w := open(t, server, "", 1680, 1000)
	defer w.close()
	w.await(fmt.Sprintf(`document.querySelector(".card-services dd").textContent === "%d"`, len(services)))
	w.says("#where", l.Node.Name+"of-the-tests")
	tables := map[string]string{}
	for _, family := range []string{"ip", "ip6"} {
		out, err := l.Node.Command(t.Context(), "nft", "list", "table", family, "kube-vmap").CombinedOutput()
		if err != nil {
			t.Fatalf("nft: %v\n%s", err, out)
		}
		tables[family] = string(out)
	}
	ways := 0
	commands := map[string]string{}
	for _, s := range services {
		get[string](w, fmt.Sprintf(`location.hash = "#/default/%s"`, s.Name))
		w.await(fmt.Sprintf(`document.querySelector("h1").textContent === "default / %s" && document.querySelector(".walk")`, s.Name))
		for tab := range get[int](w, `document.querySelectorAll('[role="tab"]').length`) {
			get[bool](w, fmt.Sprintf(`(document.querySelectorAll('[role="tab"]')[%d].click(), true)`, tab))
			w.await(fmt.Sprintf(`document.querySelectorAll('[role="tab"]')[%d].getAttribute("aria-selected") === "true"`, tab))
			table := tables["ip"]
			if strings.HasSuffix(get[string](w, `document.querySelector('[role="tab"][aria-selected="true"]').textContent`), "IPv6") {
				table = tables["ip6"]
			}
			for i := range get[int](w, `document.querySelectorAll(".frontends tbody tr").length`) {
				get[bool](w, fmt.Sprintf(`(document.querySelectorAll(".frontends tbody tr a")[%d].click(), true)`, i))
				w.await(fmt.Sprintf(`document.querySelectorAll(".frontends tbody tr")[%d].classList.contains("is-chosen")`, i))
				at := get[string](w, "location.hash")
				ways++
				for _, name := range get[[]string](w, `[...document.querySelectorAll(".walk .node:not(.node-endpoint):not(.node-bad)")].map(n => n.dataset.name)`) {
					kind, word := "chain", name
					if m, isMap := strings.CutPrefix(name, "map "); isMap {
						kind, word = "map", m
					}
					if !strings.Contains(table, "\t"+kind+" "+word+" {") {
						t.Errorf("%s: there is no %s %s", at, kind, word)
					}
				}
				for command := range strings.Lines(w.text(".looks pre")) {
					commands[strings.TrimSpace(command)] = at
				}
			}
		}
	}
	if ways < 100 {
		t.Errorf("only %d ways are looked at", ways)
	}
	for command, at := range commands {
		out, err := l.Node.Command(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s: %s: %v\n%s", at, command, err, out)
		}
	}
	t.Logf("%d ways, %d commands", ways, len(commands))
}

// TestConnectionsAppearAsTheyAreMade connects to a Service, and reads the page.
func TestConnectionsAppearAsTheyAreMade(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 2})
	for _, p := range l.Pods {
		if err := p.ServeAll(daemon.TargetPort); err != nil {
			t.Fatal(err)
		}
	}
	s := daemon.Service{Name: "web", Number: 1, Endpoints: []*lab.Host{l.Pods[1].Host}}
	folder := daemon.NewFolder(t, l)
	folder.Put("services", s)
	d := daemon.Start(t, l.Node, folder, "--status-page")
	w := open(t, away(t, l.Node.Host), "#/default/web", 1360, 860)
	w.await(`document.querySelector(".walk")`)
	daemon.ForEachTransport(t, func(t *testing.T, way daemon.Transport) {
		for range 3 {
			to := s.AddrPort(l.Node, way.Family, model.KindClusterIP, 0)
			if got, err := l.Pods[0].Ask(way.Protocol, to, 5*time.Second); err != nil || got.Outcome != lab.Answered {
				t.Fatalf("%s: %v %v", to, got, err)
			}
		}
	})
	w.await(`document.querySelector(".glance strong:last-of-type") && [...document.querySelectorAll(".glance p")].some(p => p.textContent === "18 so far")`)
	d.Stop()
	w.ignore("Failed to load resource")
	w.await(`["gone", "failing"].includes(document.getElementById("live").dataset.state)`)
	w.close()
}

func TestPageIsOffByDefault(t *testing.T) {
	l := labtest.New(t, lab.Options{Pods: 1})
	folder := daemon.NewFolder(t, l)
	daemon.Start(t, l.Node, folder)
	for _, path := range []string{"/status/", "/status/api/document"} {
		if text, err := l.Node.Get("http://127.0.0.1:10249"+path, 5*time.Second); err == nil && !strings.Contains(text, "404") {
			t.Errorf("%s is served:\n%s", path, text)
		}
	}
}
