package shadow

import (
	"fmt"
	"strings"
	"testing"

	"kube-vmap/integration/daemon"
	"kube-vmap/integration/process"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// TestShadowThatRunsCountsDifferences lets a difference begin.
func TestShadowThatRunsCountsDifferences(t *testing.T) {
	t.Parallel()
	plain := daemon.Service{Name: "plain", Number: 1, EndpointSpec: everywhere, Kinds: daemon.Kinds}
	r := newRig(t, []daemon.Service{plain})
	p, err := process.Start(t.Context(), process.Config{Program: daemon.Program(t), Host: r.Node.Host, Args: []string{
		"shadow", "--period=1s", "--master=http://" + apiAddress, "--hostname-override=node-1", "--proxy-mode=nftables", "--cluster-cidr=" + podRanges,
	}})
	r.must(err)
	t.Cleanup(func() { _ = p.Stop() })
	await := func(what string, try func() error) {
		t.Helper()
		if err := p.Within(t.Context(), patience, what, try); err != nil {
			t.Fatalf("%v\n%s", err, p.Log.Tail())
		}
	}
	counts := func(want string) func() error {
		return func() error {
			text, err := r.Node.Get("http://127.0.0.1:10349/metrics", patience) // where it serves by default
			if err == nil && !strings.Contains(text, want) {
				err = fmt.Errorf("no %s in\n%s", want, text)
			}
			return err
		}
	}
	await("no difference", counts(`kubevmap_shadow_differences{kind="verdict"} 0`))

	r.stop()
	for _, f := range model.Families {
		key := plain.Addr(f, model.KindClusterIP).String() + " . tcp . 80"
		r.nft("delete element " + nft.FamilyName(f) + " kube-proxy service-ips { " + key + " }")
	}
	await("differences of both families", counts(`kubevmap_shadow_differences{kind="verdict"} 2`))
	r.must(p.Stop())
}
