package model

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
)

func TestEveryFieldOfFrontendMatters(t *testing.T) {
	base := func() *Frontend {
		return &Frontend{
			Match: webMatch(KindClusterIP, IPv4, UDP), Service: httpPort(UDP),
			Pool: &Pool{
				Key: webMatch(KindClusterIP, IPv4, UDP), Scheduler: SchedulerRandom, Affinity: time.Minute,
				Cluster: podPorts(IPv4, 1, 2), Local: podPorts(IPv4, 1),
			},
		}
	}
	tests := map[string]struct {
		change        func(*Frontend)
		everyFrontend bool // it also matters to frontends that do not own the pool
	}{
		"Kind":       {func(f *Frontend) { f.Kind = KindExternalIP }, true},
		"Service":    {func(f *Frontend) { f.Service.Port = "x" }, true},
		"Policy":     {func(f *Frontend) { f.Policy = PolicyLocal }, true},
		"Verdict":    {func(f *Frontend) { f.Verdict = VerdictDrop }, true},
		"Masquerade": {func(f *Frontend) { f.Masquerade = MasqueradeAlways }, true},
		"Restricted": {func(f *Frontend) { f.Restricted = true }, true},
		"Sources":    {func(f *Frontend) { f.Sources = []netip.Prefix{{}} }, true},
		"Denied":     {func(f *Frontend) { f.Denied = []netip.Prefix{{}} }, true},

		"Pool.UID":                 {func(f *Frontend) { f.Pool.UID = "new" }, true},
		"Pool.Key":                 {func(f *Frontend) { f.Pool.Key.Port++ }, true},
		"Pool.Scheduler":           {func(f *Frontend) { f.Pool.Scheduler = SchedulerMaglev }, true},
		"Pool.FlowEndpoints":       {func(f *Frontend) { f.Pool.FlowEndpoints = podPorts(IPv4, 2) }, true},
		"the size of Cluster":      {func(f *Frontend) { f.Pool.Cluster = podPorts(IPv4, 1) }, true},
		"the size of Local":        {func(f *Frontend) { f.Pool.Local = nil }, true},
		"Pool.Cluster":             {func(f *Frontend) { f.Pool.Cluster = podPorts(IPv4, 1, 3) }, false},
		"Pool.Local":               {func(f *Frontend) { f.Pool.Local = podPorts(IPv4, 2) }, false},
		"Pool.ClusterWeights":      {func(f *Frontend) { f.Pool.ClusterWeights = []uint16{1, 2} }, false},
		"Pool.LocalWeights":        {func(f *Frontend) { f.Pool.LocalWeights = []uint16{2} }, false},
		"Pool.ClusterShares":       {func(f *Frontend) { f.Pool.ClusterShares = []uint16{2, 0} }, false},
		"Pool.LocalShares":         {func(f *Frontend) { f.Pool.LocalShares = []uint16{1} }, false},
		"the sum of ClusterShares": {func(f *Frontend) { f.Pool.ClusterShares = []uint16{1, 2} }, true},
		"the sum of LocalShares":   {func(f *Frontend) { f.Pool.LocalShares = []uint16{2} }, true},
		"Pool.Affinity":            {func(f *Frontend) { f.Pool.Affinity = time.Hour }, true},
		"Pool.Hold":                {func(f *Frontend) { f.Pool.Hold = time.Minute }, true},
		"Pool.RetryRefused":        {func(f *Frontend) { f.Pool.RetryRefused = true }, true},
		"Pool.ScaleToZero":         {func(f *Frontend) { f.Pool.ScaleToZero = true }, true},
		"Pool.PassiveChecks":       {func(f *Frontend) { f.Pool.PassiveChecks = PassiveChecksAvoid }, false},
		"Pool.Avoided":             {func(f *Frontend) { f.Pool.Avoided = podPorts(IPv4, 3) }, false},
		"Pool.StandBy":             {func(f *Frontend) { f.Pool.StandBy = podPorts(IPv4, 3) }, false},
		"Pool.SlowStart":           {func(f *Frontend) { f.Pool.SlowStart = time.Minute }, false},
		"Pool.ClusterSteps":        {func(f *Frontend) { f.Pool.ClusterSteps.Eighths = []uint8{8, 1} }, false},
		"Pool.LocalSteps":          {func(f *Frontend) { f.Pool.LocalSteps.Slots = 8 }, false},
		"Pool.Hairpin":             {func(f *Frontend) { f.Pool.Hairpin = podIPs(IPv4, 1) }, false},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Frontend]()) {
		if _, tested := tests[field.Name]; !tested && field.Name != "Match" && field.Name != "Pool" {
			t.Errorf("no test of field %s", field.Name)
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Pool]()) {
		if _, tested := tests["Pool."+field.Name]; !tested {
			t.Errorf("no test of field Pool.%s", field.Name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, match := range []Match{webMatch(KindClusterIP, IPv4, UDP), webMatch(KindNodePort, IPv4, UDP)} {
				a, b := base(), base()
				a.Match, b.Match = match, match
				if a.Match != a.Pool.Key {
					a.Kind, b.Kind = KindNodePort, KindNodePort
				}
				if !a.equal(b) || !b.equal(a) {
					t.Fatalf("%s: not equal to itself", match)
				}
				test.change(b)
				if want := !test.everyFrontend && !a.IsClusterIP(); a.equal(b) != want || b.equal(a) != want {
					t.Errorf("%s: equal %v, want %v", match, a.equal(b), want)
				}
			}
		})
	}
}

func TestTimeoutsOfAffinityAreFew(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second, 4 * time.Second: 5 * time.Second, 10 * time.Second: 10 * time.Second,
		11 * time.Second: 15 * time.Second, 90 * time.Second: 2 * time.Minute, 1001 * time.Second: 20 * time.Minute,
		125 * time.Second: 2 * time.Minute, 127 * time.Second: 3 * time.Minute, 21 * time.Second: 20 * time.Second,
		3 * time.Hour: 3 * time.Hour, 3*time.Hour + 10*time.Minute: 4 * time.Hour, 24*time.Hour - time.Second: 24 * time.Hour,
		24 * time.Hour: 24 * time.Hour, 25 * time.Hour: 24 * time.Hour,
	} {
		if got := AffinityTimeout(asked); got != want {
			t.Errorf("clients are remembered for %v, want %v of %v", got, want, asked)
		}
	}
}

// TestEqualComparesEveryField changes each field of each value in turn. It fails when a field
// was added to a type but not to its equal method.
func TestEqualComparesEveryField(t *testing.T) {
	addr, prefix := netip.MustParseAddr("10.0.0.1"), netip.MustParsePrefix("10.0.0.0/8")
	comparesEveryField(t, (*Service).equal, func() Service {
		return Service{
			ClusterIPs: []netip.Addr{addr}, ExternalIPs: []netip.Addr{addr}, LoadBalancerIPs: []netip.Addr{addr},
			SourceRanges: []netip.Prefix{prefix}, DeniedRanges: []netip.Prefix{prefix}, Ports: []ServicePort{{}}, Nodes: NodeSelector{{}},
		}
	})
	comparesEveryField(t, (*EndpointSlice).equal, func() EndpointSlice {
		return EndpointSlice{Ports: []EndpointPort{{}}, Endpoints: []Endpoint{{Addr: addr}}}
	})
}

// TestEqualObjectsChangeNothing sets objects again, as after a list of the API server.
func TestEqualObjectsChangeNothing(t *testing.T) {
	m := NewServiceMap(Options{}, Node{})
	service := func(port uint16) Service {
		return Service{
			Name: ServiceName{"default", "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
			Ports: []ServicePort{{Protocol: SCTP, Port: port}},
		}
	}
	slice := func(owner string) EndpointSlice {
		return EndpointSlice{
			Name: EndpointSliceName{"default", "web-1"}, Service: ServiceName{"default", owner},
			Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.0.0.1"), Ready: true}},
		}
	}
	for i, step := range []struct {
		changed bool
		set     func() bool
	}{
		{true, func() bool { return m.SetService(service(80)) }},
		{false, func() bool { return m.SetService(service(80)) }},
		{true, func() bool { return m.SetService(service(81)) }},
		{true, func() bool { return m.SetSlice(slice("web")) }},
		{false, func() bool { return m.SetSlice(slice("web")) }},
		{true, func() bool { return m.SetSlice(slice("other")) }},
		{true, func() bool { return m.DeleteSlice(slice("").Name) }},
		{false, func() bool { return m.DeleteSlice(slice("").Name) }},
		{true, func() bool { return m.DeleteService(service(0).Name) }},
		{false, func() bool { return m.DeleteService(service(0).Name) }},
	} {
		if changed := step.set(); changed != step.changed || changed != (len(m.dirty) > 0) {
			t.Errorf("step %d: changed %v with %d Services to compute, want %v", i, changed, len(m.dirty), step.changed)
		}
		m.Changes()
	}
}

func comparesEveryField[T any](t *testing.T, equal func(a, b *T) bool, newValue func() T) {
	t.Helper()
	value, changed := newValue(), newValue()
	if !equal(&value, &changed) {
		t.Fatalf("%+v is not equal to itself", value)
	}
	v := reflect.ValueOf(&changed).Elem()
	eachField(v, v.Type().String(), func(path string, change, restore func()) {
		change()
		if equal(&value, &changed) {
			t.Errorf("equal does not compare %s", path)
		}
		restore()
	})
}

// eachField calls f for each field in v, and in what v contains.
func eachField(v reflect.Value, path string, f func(path string, change, restore func())) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	set := func(to any) {
		f(path, func() { v.Set(reflect.ValueOf(to).Convert(v.Type())) }, func() { v.Set(was) })
	}
	switch v.Interface().(type) {
	case netip.Addr:
		set(netip.MustParseAddr("::ffff:10.0.0.1"))
		set(netip.MustParseAddr("10.0.0.2"))
		return
	case netip.Prefix:
		set(netip.MustParsePrefix("10.0.0.0/9"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, f)
		}
	case reflect.Slice:
		f(path+"[+]", func() { v.Set(reflect.Append(was, was.Index(0))) }, func() { v.Set(was) })
		f(path+"[-]", func() { v.SetZero() }, func() { v.Set(was) })
		eachField(v.Index(0), path+"[0]", f)
	case reflect.Bool:
		set(true)
	case reflect.String:
		set("x")
	default:
		set(1)
	}
}
