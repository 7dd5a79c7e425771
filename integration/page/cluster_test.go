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
