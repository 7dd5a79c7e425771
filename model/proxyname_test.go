package model_test

import (
	"testing"

	"kube-vmap/model"
)

func TestProxyServesItsOwnServices(t *testing.T) {
	defer model.SetProxyName("")
	none, empty, edge, other := map[string]string(nil), map[string]string{model.LabelServiceProxyName: ""},
		map[string]string{model.LabelServiceProxyName: "edge"}, map[string]string{model.LabelServiceProxyName: "other"}
	for name, want := range map[string][4]bool{"": {true, false, false, false}, "edge": {false, false, true, false}} {
		model.SetProxyName(name)
		if got := [4]bool{model.Serves(none), model.Serves(empty), model.Serves(edge), model.Serves(other)}; got != want {
			t.Errorf("proxy %q serves %v, want %v", name, got, want)
		}
	}
}
