package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-vmap/model"
	"kube-vmap/sync/cluster/apitest"
)

// TestARefusedObjectKeepsNothing makes an object one that is refused, and deletes
// and makes it again while there is no watch.
func TestARefusedObjectKeepsNothing(t *testing.T) {
	badService := service("web-0", 50)
	badService.Spec.Ports = nil
	cases := map[string]struct {
		good, bad apitest.Object
		gone      string
	}{
		"Service":     {service("web-0", 1), badService, "no service default/web-0"},
		"ServiceCIDR": {serviceCIDR("kubernetes", "10.96.0.0/16", "fd00:96::/112"), serviceCIDR("kubernetes", "10.96.0.0/33"), "cidrs []"},
	}
	for _, f := range model.Families {
		bad := slice("web-0", f, 1)
		bad.AddressType = discoveryv1.AddressType("Odd")
		good := slice("web-0", f, 1, 2)
		cases["EndpointSlice of "+f.String()] = struct {
			good, bad apitest.Object
			gone      string
		}{good, bad, "no slice default/" + good.Name}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := filled()
				s.Put(c.good)
				r := run(t, s)
				r.now()
				s.Put(c.bad) // of the same life
				if got := lines(r.now()); !strings.Contains(got, c.gone) || strings.Count(got, "problem of ") != 1 {
					t.Errorf("got %s, want %s", got, c.gone)
				}
				s.SetDown(true)
				s.Delete(c.bad)
				s.Put(c.bad)
				s.Compact()
				s.SetDown(false)
				got := lines(r.next(20 * time.Second))
				if strings.Count(got, "problem of ") != strings.Count(got, "\n")+1 {
					t.Errorf("made again, got %s, want problems only", got)
				}
				r.quiet(time.Hour)
				r.stop()
			})
		})
	}
}

// TestAnotherLifeThatIsGoodIsOneEvent is about an object that was deleted and made
// again while nobody watched.
func TestAnotherLifeThatIsGoodIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, filled())
		r.now()
		r.SetDown(true)
		r.Delete(slice("web-0", model.IPv4), slice("web-0", model.IPv6), slice("web-1", model.IPv6))
		r.Put(slice("web-0", model.IPv4, 1, 2), slice("web-0", model.IPv6, 9), slice("web-1", model.IPv6, 3, 4, 5))
		r.Compact()
		r.SetDown(false)
		if got, want := lines(r.next(20*time.Second)), "slice default/web-0-ipv6 1"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		r.quiet(time.Hour)
		r.stop()
	})
}

func TestTheZoneOfANodeThatIsRegisteredAgainStays(t *testing.T) {
	bare := node()
	bare.Labels, bare.Status = nil, corev1.NodeStatus{}
	moved := node()
	moved.Labels[corev1.LabelTopologyZone] = "zone-2"
	zoneless := strings.ReplaceAll(nodeLine, "zone-1", "")
	there := strings.ReplaceAll(nodeLine, "zone-1", "zone-2")
	t.Run("while it is watched", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, filled())
			r.now()
			for range 2 {
				r.Delete(node())
				r.now()
				r.Put(bare)
				if got := lines(r.now()); got != nodeLine {
					t.Errorf("told %s, want %s", got, nodeLine)
				}
				tainted := bare.DeepCopy()
				tainted.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
				r.Put(tainted)
				if got := lines(r.now()); !strings.Contains(got, "zone-1") {
					t.Errorf("without a zone still, told %s", got)
				}
				r.Put(node())
				r.now()
			}
			r.Put(moved)
			if got := lines(r.now()); got != there {
				t.Errorf("told %s, want %s", got, there)
			}
			r.Put(bare) // it was there all along
			if got := lines(r.now()); got != zoneless {
				t.Errorf("told %s, want %s", got, zoneless)
			}
			r.stop()
		})
	})
	t.Run("while nobody watches", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := run(t, filled())
			r.now()
			r.SetDown(true)
			r.Delete(node())
			r.Put(bare)
			r.Compact()
			r.SetDown(false)
			select {
			case events := <-r.bursts:
				if got := lines(events); got != nodeLine {
					t.Errorf("told %s, want nothing new", got)
				}
			case <-time.After(time.Minute):
			}
			r.Put(moved)
			if got := lines(r.now()); got != there {
				t.Errorf("told %s, want %s", got, there)
			}
			r.stop()
		})
	})
}
