package page

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
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

// TestConnectionsAppearAsTheyAreMade connects to a Service, and reads the page.
func TestConnectionsAppearAsTheyAreMade(t *testing.T) {
	t.Parallel()
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
	w := openAt(t, away(t, l.Node.Host), "/status/", "#/service/default/web", 1360, 860)
	w.await(`document.querySelector(".flows")`)
	daemon.ForEachTransport(t, func(t *testing.T, way daemon.Transport) {
		for range 3 {
			to := s.AddrPort(l.Node, way.Family, model.KindClusterIP, 0)
			if got, err := l.Pods[0].Ask(way.Protocol, to, 5*time.Second); err != nil || got.Outcome != lab.Answered {
				t.Fatalf("%s: %v %v", to, got, err)
			}
		}
	})
	w.await(`document.querySelector(".glance strong:last-of-type") && [...document.querySelectorAll(".glance p")].some(p => p.textContent === "18 so far")`)
	follow(w, l, s)
	w.await(fmt.Sprintf(`document.getElementById("where").textContent === "%sof-the-tests"`, l.Node.Name))
	d.Stop()
	w.ignoreFailedLoads()
	w.await(`["gone", "failing"].includes(document.getElementById("live").dataset.state)`)
}

// follow follows a packet by the page of a node, and looks for the chains it names in the
// kernel. What other programs do with packets is not shown.
func follow(w *window, l *lab.Lab, s daemon.Service) {
	w.Helper()
	for _, f := range model.Families {
		get[bool](w, fmt.Sprintf(`(location.hash = "#/path?to=%s/tcp", true)`, s.AddrPort(l.Node, f, model.KindClusterIP, 0)))
		w.await(fmt.Sprintf(`document.querySelector(".way-what")?.textContent.includes("%s") && document.querySelector(".stop-endpoint .share")?.textContent === "100%%"`, f))
		chains := get[[]string](w, `[...document.querySelectorAll(".lane .chain")].map(e => e.textContent).filter(Boolean)`)
		if len(chains) < 3 {
			w.Errorf("%s: the packet passes the chains %q", f, chains)
		}
		for _, chain := range chains {
			family := map[model.Family]string{model.IPv4: "ip", model.IPv6: "ip6"}[f]
			labtest.Run(w, l.Node.Host, "", "nft", "list", "chain", family, "kube-vmap", chain)
		}
	}
	labtest.Run(w, l.Node.Host, "", "nft", "add table inet secret-program; add chain inet secret-program out { type filter hook postrouting priority 0; }; "+
		"add rule inet secret-program out tcp dport "+fmt.Sprint(daemon.TargetPort)+" drop")
	w.ignoreFailedLoads()
	get[bool](w, `(document.querySelector(".submit").click(), true)`)
	w.await(`document.querySelector(".is-error")?.textContent.startsWith("a rule of another program decides")`)
}
