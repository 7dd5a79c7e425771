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

// TestShadowThatRunsReportsWhatBeginsAndEnds runs shadow beside a kube-proxy that runs, and
// lets a difference begin and end.
func TestShadowThatRunsReportsWhatBeginsAndEnds(t *testing.T) {
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
	for _, f := range model.Families {
		await("a line about "+f.String(), func() error {
			for _, e := range p.Log.Find(0, "differs from kube-proxy") {
				if e["service"] == "default/plain:tcp-0" && e["family"] == f.String() && e["kind"] == "verdict" {
					return nil
				}
			}
			return fmt.Errorf("there is none")
		})
	}

	r.start() // writes everything again
	await("the end of the differences", counts(`kubevmap_shadow_differences{kind="verdict"} 0`))
	await("the lines about it", func() error {
		if lines := p.Log.Find(0, "no longer differs from kube-proxy"); len(lines) != len(model.Families) {
			return fmt.Errorf("%d lines", len(lines))
		}
		return nil
	})
	r.must(p.Stop())
}
