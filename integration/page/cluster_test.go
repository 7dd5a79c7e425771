package page

import (
	"testing"

	"kube-vmap/cmd/inspect/status"
)

// clusterMap opens the map of a cluster, and waits until rates are known.
func clusterMap(t *testing.T, f *fleet, width, height int64) *window {
	t.Helper()
	w := openAt(t, f.serve(t), "/"+token+"/", "", width, height)
	w.await(`document.querySelectorAll(".rows .row").length > 3`)
	return w
}

func TestMapShowsFewNodes(t *testing.T) {
	f := newFleet(3, shopkeeping)
	w := clusterMap(t, f, 1360, 1000)
	w.await(`document.querySelector(".card-rate dd").textContent !== "–"`)
	w.await(`document.querySelectorAll(".rows .c-strip .num").length > 3 && [...document.querySelectorAll(".rows .c-strip .num")].every(n => n.textContent !== "–")`)
	w.picture("cluster-few-light")
	w.prefer("prefers-color-scheme", "dark")
	w.picture("cluster-few-dark")
}

func TestMapShowsManyNodes(t *testing.T) {
	f := newFleet(200, func() []status.Service { return append(shopkeeping(), crowd(300)...) })
	f.silent["node-17"] = "node-17: no answer in 10s"
	w := clusterMap(t, f, 1360, 1000)
	w.await(`document.querySelector(".card-rate dd").textContent !== "–"`)
	w.await(`document.querySelectorAll(".rows canvas").length > 3 && document.querySelector(".rows canvas").row`)
	w.picture("cluster-many-light")
	w.prefer("prefers-color-scheme", "dark")
	w.await(`document.querySelector(".rows canvas").theme.endsWith("true")`)
	w.picture("cluster-many-dark")
}

func TestServiceShowsWhereConnectionsGo(t *testing.T) {
	f := newFleet(3, shopkeeping)
	for _, n := range []string{"node-1", "node-2", "node-3"} {
		f.rates[n]["shop/web"] = map[string]uint64{"node-1": 200, "node-2": 40, "node-3": 5}[n]
	}
	web := &f.at["node-2"].Services[len(f.at["node-2"].Services)-1]
	for i := range web.Ports {
		web.Ports[i].Endpoints = web.Ports[i].Endpoints[1:]
		web.Ports[i].Frontends[1].Verdict = status.VerdictDrop
	}
	w := clusterMap(t, f, 1360, 1300)
	w.press("/")
	w.press("shop/web\r")
	w.await(`document.querySelector(".flows")`)
	w.await(`[...document.querySelectorAll(".flows .from text")].some(e => e.textContent.startsWith("80.0 new/s"))`)
	w.await(`document.querySelectorAll(".differs li").length > 0`)
	w.picture("cluster-service-light")
	w.prefer("prefers-color-scheme", "dark")
	w.picture("cluster-service-dark")
}

func TestNodeShowsItsServices(t *testing.T) {
	w := clusterMap(t, newFleet(3, shopkeeping), 1360, 860)
	get[bool](w, `(document.querySelector('.node-card[data-name="node-2"]').click(), true)`)
	w.await(`document.querySelector("h1").textContent === "Node node-2" && document.querySelectorAll(".rows .row").length > 2`)
	w.await(`document.querySelector(".glance strong").textContent !== "–"`)
	w.picture("cluster-node-light")
}
