package convert

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kube-vmap/model"
)

// checkAnnotation checks that there is one error, of an annotation and with a text, or none.
func checkAnnotation(t *testing.T, value string, errs field.ErrorList, name, text string) {
	t.Helper()
	if text == "" && len(errs) > 0 || text != "" && (len(errs) != 1 ||
		errs[0].Field != "metadata.annotations["+name+"]" || !strings.Contains(errs[0].Error(), text) ||
		len(errs[0].Error()) > 1000) {
		t.Errorf("%.100q: errors %v, want %q", value, errs, text)
	}
}

func TestAnnotationsOfService(t *testing.T) {
	const scheduler, checks = "kube-vmap.io/scheduler", "kube-vmap.io/passive-health-checks"
	for _, test := range []struct {
		name, value string
		scheduler   model.Scheduler
		checks      model.PassiveChecks
		err         string
	}{
		{"example.com/other", "rr", 0, 0, ""},
		{scheduler, "", model.SchedulerDefault, 0, ""},
		{scheduler, "random", model.SchedulerRandom, 0, ""},
		{scheduler, "rr", model.SchedulerRoundRobin, 0, ""},
		{scheduler, "wrr", model.SchedulerRoundRobin, 0, ""},
		{scheduler, "sh", model.SchedulerSourceHash, 0, ""},
		{scheduler, "mh", model.SchedulerMaglev, 0, ""},
		{scheduler, "lc", model.SchedulerLeastConnections, 0, ""},
		{scheduler, "wlc", model.SchedulerLeastConnections, 0, ""},
		{scheduler, "lblc", model.SchedulerRandom, 0, "count connections"},
		{scheduler, "sed", model.SchedulerLeastConnections, 0, ""},
		{scheduler, "nq", model.SchedulerLeastConnections, 0, ""},
		{scheduler, "fo", model.SchedulerRandom, 0, "every client"},
		{scheduler, "RR", model.SchedulerDefault, 0, "no such scheduler"},
		{scheduler, "rr ", model.SchedulerDefault, 0, "no such scheduler"},
		{checks, "", 0, model.PassiveChecksDefault, ""},
		{checks, "off", 0, model.PassiveChecksOff, ""},
		{checks, "report", 0, model.PassiveChecksReport, ""},
		{checks, "avoid", 0, model.PassiveChecksAvoid, ""},
		{checks, "Avoid", 0, model.PassiveChecksDefault, "Avoid"},
		{checks, "default", 0, model.PassiveChecksDefault, "default"},
	} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = map[string]string{test.name: test.value} }))
		want := wantService()
		want.Scheduler, want.PassiveChecks = test.scheduler, test.checks
		check(t, test.value, want, got)
		checkAnnotation(t, test.value, errs, test.name, test.err)
	}
	for _, s := range []model.Scheduler{model.SchedulerRandom, model.SchedulerRoundRobin, model.SchedulerSourceHash, model.SchedulerMaglev, model.SchedulerLeastConnections} {
		if got, err := ParseScheduler(s.String()); got != s || err != nil {
			t.Errorf("%s: got %s, %v", s, got, err)
		}
	}
}

func TestHoldOfService(t *testing.T) {
	const hold = "kube-vmap.io/hold"
	for value, want := range map[string]time.Duration{
		"": 0, "1s": time.Second, "30s": 30 * time.Second, "1m30s": 90 * time.Second, "10m": 10 * time.Minute,
		"999ms": -1, "10m1s": -1, "-1s": -1, "30": -1, "1h": -1, "NaN": -1, " 5s": -1, strings.Repeat("9", 1000) + "s": -1,
	} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = map[string]string{hold: value} }))
		s, text := wantService(), ""
		if want < 0 {
			want, text = 0, "1s to 10m"
		}
		s.Hold = want
		check(t, value, s, got)
		checkAnnotation(t, value, errs, hold, text)
	}
}

func TestSlowStartOfService(t *testing.T) {
	const name = "kube-vmap.io/slow-start"
	for value, want := range map[string]time.Duration{
		"": 0, "10s": 10 * time.Second, "60s": time.Minute, "15m": 15 * time.Minute,
		"9.9s": -1, "15m1s": -1, "-60s": -1, "60": -1, "true": -1,
	} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = map[string]string{name: value} }))
		s, text := wantService(), ""
		if want < 0 {
			want, text = 0, "10s to 15m"
		}
		s.SlowStart = want
		check(t, value, s, got)
		checkAnnotation(t, value, errs, name, text)
	}
	for value, scheduler := range map[string]model.Scheduler{"sh": model.SchedulerSourceHash, "mh": model.SchedulerMaglev} {
		for _, affinity := range []corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP} {
			got, errs := Service(service(func(s *corev1.Service) {
				s.Annotations = map[string]string{name: "60s", "kube-vmap.io/scheduler": value}
				s.Spec.SessionAffinity = affinity
			}))
			s, text := wantService(), "no effect with scheduler "+value
			if s.Scheduler = scheduler; affinity == corev1.ServiceAffinityClientIP {
				s.Affinity, s.SlowStart, text = 3*time.Hour, time.Minute, ""
			}
			check(t, value, s, got)
			checkAnnotation(t, value, errs, name, text)
		}
	}
}

func TestRetryRefusedOfService(t *testing.T) {
	const name = "kube-vmap.io/retry-refused"
	for value, want := range map[string]bool{"": false, "true": true, "false": false, "yes": false} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = map[string]string{name: value} }))
		s, text := wantService(), ""
		if s.RetryRefused = want; value == "yes" {
			text = `must be "true" or "false"`
		}
		check(t, value, s, got)
		checkAnnotation(t, value, errs, name, text)
	}
}

func TestNodesOfService(t *testing.T) {
	const name = "kube-vmap.io/nodes"
	none := model.NodeSelector{{}}
	for value, test := range map[string]struct {
		want model.NodeSelector
		err  string
	}{
		"":                {nil, ""},
		"role":            {model.NodeSelector{{Labels: "role"}}, ""},
		"!role":           {model.NodeSelector{{Labels: "role", Not: true}}, ""},
		"example.com/a=":  {model.NodeSelector{{Labels: "example.com/a="}}, ""},
		"role==edge,a!=b": {model.NodeSelector{{Labels: "a=b", Not: true}, {Labels: "role=edge"}}, ""},
		"a in (c, b)":     {model.NodeSelector{{Labels: "a=b,a=c"}}, ""},
		"a notin (b,c),a": {model.NodeSelector{{Labels: "a=b,a=c", Not: true}, {Labels: "a"}}, ""},
		"a>1":             {none, "< and > are not supported"},
		"a in":            {none, "unable to parse"},
		"a=b c":           {none, "no node serves its external addresses"},
		"a in (" + strings.Repeat("b,", maxNodeSelector) + "c)": {none, "at most 1024 bytes"},
	} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = map[string]string{name: value} }))
		s := wantService()
		s.Nodes = test.want
		check(t, value, s, got)
		checkAnnotation(t, value, errs, name, test.err)
	}
}

// TestSourceRangesOfService has what the annotations close: with a bad range all addresses that have
// ranges.
func TestSourceRangesOfService(t *testing.T) {
	const all, denied = "kube-vmap.io/source-ranges", "kube-vmap.io/denied-source-ranges"
	ranges := func(list ...string) (out []netip.Prefix) {
		for _, r := range list {
			out = append(out, netip.MustParsePrefix(r))
		}
		return out
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		denied      []netip.Prefix
		all, closed bool
		err         string // the annotation
		text        string
	}{
		"none":             {map[string]string{all: "", denied: ""}, nil, false, false, "", ""},
		"all":              {map[string]string{all: "all"}, nil, true, false, "", ""},
		"another word":     {map[string]string{all: "All"}, nil, true, false, all, "which is used instead"},
		"denied":           {map[string]string{denied: "192.0.2.7/24, 2001:db8::/32"}, ranges("192.0.2.0/24", "2001:db8::/32"), false, false, "", ""},
		"a bad one":        {map[string]string{denied: "192.0.2.0/24,x"}, nil, false, true, denied, "must be a valid CIDR"},
		"a bad one of all": {map[string]string{all: "all", denied: "192.0.2.0/24, "}, nil, true, true, denied, "must be a valid CIDR"},
	} {
		got, errs := Service(service(func(s *corev1.Service) {
			s.Annotations, s.Spec.LoadBalancerSourceRanges = test.annotations, []string{"203.0.113.0/24"}
			s.Spec.Type, s.Spec.Ports[0].NodePort, s.Spec.ExternalIPs = corev1.ServiceTypeLoadBalancer, 30000, []string{"198.51.100.1"}
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}}
		}))
		want := wantService()
		want.DeniedRanges, want.RangesForAll = test.denied, test.all
		if !test.closed {
			want.SourceRanges, want.LoadBalancerIPs = ranges("203.0.113.0/24"), addrs("198.51.100.2")
		}
		if !test.closed || !test.all {
			want.Ports[0].NodePort, want.ExternalIPs = 30000, addrs("198.51.100.1")
		}
		check(t, name, want, got)
		if len(errs) > 0 {
			errs[0].Field, _, _ = strings.Cut(errs[0].Field, "][")
			errs[0].Field = strings.TrimSuffix(errs[0].Field, "]") + "]"
		}
		checkAnnotation(t, name, errs, test.err, test.text)
	}
}

func TestScaleToZeroOfService(t *testing.T) {
	const ours, cilium, hold = "kube-vmap.io/scale-to-zero", "service.cilium.io/scale-to-zero", "kube-vmap.io/hold"
	for _, test := range []struct {
		annotations map[string]string
		scale       bool
		hold        time.Duration
		err         string // the annotation with a bad value
	}{
		{map[string]string{ours: "true"}, true, time.Minute, ""},
		{map[string]string{ours: "true", hold: "5s"}, true, 5 * time.Second, ""},
		{map[string]string{cilium: "true"}, true, time.Minute, ""},
		{map[string]string{ours: "false", cilium: "true"}, false, 0, ""},
		{map[string]string{ours: "false", hold: "5s"}, false, 5 * time.Second, ""},
		{map[string]string{ours: "yes", cilium: "true"}, false, 0, ours},
		{map[string]string{cilium: ""}, false, 0, cilium},
	} {
		got, errs := Service(service(func(s *corev1.Service) { s.Annotations = test.annotations }))
		want, text := wantService(), ""
		if want.ScaleToZero, want.Hold = test.scale, test.hold; test.err != "" {
			text = `must be "true" or "false"`
		}
		name := fmt.Sprint(test.annotations)
		check(t, name, want, got)
		checkAnnotation(t, name, errs, test.err, text)
	}
}

func TestWeightOfSlice(t *testing.T) {
	const ours, cilium = "kube-vmap.io/weight", "service.cilium.io/weight"
	for _, test := range []struct {
		annotations map[string]string
		weight      uint16
		drained     bool
		err         string // the annotation with a bad value
	}{
		{nil, 0, false, ""},
		{map[string]string{ours: "7"}, 7, false, ""},
		{map[string]string{ours: "65535"}, 65535, false, ""},
		{map[string]string{ours: "0"}, 0, true, ""},
		{map[string]string{cilium: "3"}, 3, false, ""},
		{map[string]string{cilium: "0"}, 0, true, ""},
		{map[string]string{ours: "7", cilium: "3"}, 7, false, ""},
		{map[string]string{ours: "65536"}, 0, false, ours},
		{map[string]string{ours: "-1"}, 0, false, ours},
		{map[string]string{cilium: "1 "}, 0, false, cilium},
		{map[string]string{ours: "many", cilium: "0"}, 0, false, ours},
		{map[string]string{ours: strings.Repeat("\"\n", 1000)}, 0, false, ours},
	} {
		for _, f := range model.Families {
			got, errs := Slice(slice(func(s *discoveryv1.EndpointSlice) {
				s.Annotations = test.annotations
				if f == model.IPv6 {
					s.AddressType, s.Endpoints[0].Addresses[0] = discoveryv1.AddressTypeIPv6, "fd00::5"
				}
			}))
			if got == nil || got.Weight != test.weight || got.Drained != test.drained {
				t.Errorf("%s, %.100v: got %+v", f, test.annotations, got)
			}
			checkAnnotation(t, test.annotations[test.err], errs, test.err, test.err)
		}
	}
}

func TestPriorityOfSlice(t *testing.T) {
	const annotation = "kube-vmap.io/priority"
	for text, want := range map[string]uint8{"0": 0, "1": 1, "9": 9, "10": 9, "-1": 9, "": 9, "first": 9} {
		got, errs := Slice(slice(func(s *discoveryv1.EndpointSlice) {
			s.Annotations = map[string]string{annotation: text}
		}))
		if got == nil || got.Priority != want {
			t.Errorf("%q: got %+v", text, got)
		}
		bad := ""
		if want == 9 && text != "9" {
			bad = annotation
		}
		checkAnnotation(t, text, errs, bad, bad)
	}
}
