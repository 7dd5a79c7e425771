package explain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/cmd/inspect/nodestatus/client"
	"kube-vmap/model"
)

// TestPacketIsParsed has the packet, or a part of the error, which shows the syntax.
func TestPacketIsParsed(t *testing.T) {
	for _, tc := range []struct{ from, to, want, err string }{
		{"10.244.1.7", "10.96.0.10:53/udp", "10.244.1.7 -> 10.96.0.10:53/udp", ""},
		{"10.244.1.7:40000", "10.96.0.10:53/SCTP", "10.244.1.7:40000 -> 10.96.0.10:53/sctp", ""},
		{"fd00::7", "[fd00::a]:53", "fd00::7 -> [fd00::a]:53/tcp", ""},
		{"[fd00::7]", "[fd00::a]:53/udp", "fd00::7 -> [fd00::a]:53/udp", ""},
		{"[fd00::7]:40000", "[fd00::a]:53/udp", "[fd00::7]:40000 -> [fd00::a]:53/udp", ""},
		{"::ffff:10.244.1.7", "10.96.0.10:53", "10.244.1.7 -> 10.96.0.10:53/tcp", ""},
		{"", "10.96.0.10:53", "", "both must be given"},
		{"10.244.1.7", "", "", "both must be given"},
		{"web-0", "10.96.0.10:53", "", "or an address"},
		{"fe80::1%eth0", "[fd00::a]:53", "", "link-local"},
		{"10.244.1.7", "10.96.0.10", "", "write 10.96.0.10:53/udp"},
		{"10.244.1.7", "10.96.0.10:0", "", "10.96.0.10:53/udp"},
		{"fd00::7", "fd00::a:53/udp", "", "[fd00::a]:53/udp"},
		{"10.244.1.7", "dns:53", "", "svc/dns:53"},
		{"10.244.1.7", "10.96.0.10:53/icmp", "", "tcp, udp or sctp"},
		{"10.244.1.7", "[fd00::a]:53", "", "of one family"},
	} {
		p, err := Options{From: tc.from, To: tc.to}.Packet()
		if (err != nil) != (tc.err != "") || err == nil && p.String() != tc.want || !strings.Contains(fmt.Sprint(err), tc.err) {
			t.Errorf("%s, %s: %s, %v, want %s%s", tc.from, tc.to, p, err, tc.want, tc.err)
		}
	}
}

func FuzzParsedOptionsAreAPacket(f *testing.F) {
	f.Add("10.244.1.7:40000", "10.96.0.10:53/udp")
	f.Add("[fd00::7]", "[fd00::a]:53")
	f.Fuzz(func(t *testing.T, from, to string) {
		p, err := Options{From: from, To: to}.Packet()
		if err == nil && (!p.From.IsValid() || !p.To.IsValid() || p.To.Port() == 0 || model.FamilyOf(p.From) != p.Family()) {
			t.Errorf("%q, %q: %+v", from, to, p)
		}
	})
}

// named has a Service with a port of each protocol at 53, one more at 80 of TCP, and nothing
// at 99 of it.
func named(families ...model.Family) *nodestatus.Document {
	s := nodestatus.Service{Namespace: "shop", Name: "web"}
	add := func(f model.Family, name, protocol string, port uint16, programmed bool) {
		p := nodestatus.Port{Name: name, Protocol: protocol, Family: f.String()}
		if programmed {
			p.Frontends = []nodestatus.Frontend{
				{Address: map[model.Family]string{model.IPv4: "10.96.0.10", model.IPv6: "fd00::a"}[f], Port: port, Kind: "ClusterIP"},
				{Port: 30000 + port, Kind: "NodePort"},
			}
		}
		s.Ports = append(s.Ports, p)
	}
	for _, f := range families {
		for _, p := range model.Protocols {
			add(f, "dns-"+p.String(), strings.ToUpper(p.String()), 53, true)
		}
		add(f, "http", "TCP", 80, true)
		add(f, "missing", "TCP", 99, false)
	}
	return &nodestatus.Document{Services: []nodestatus.Service{s}}
}

func TestServiceNamesBecomeAddresses(t *testing.T) {
	const v4, v6 = "10.244.1.7", "[fd00:10:244::7]:4000"
	dual := named(model.IPv4, model.IPv6)
	for _, test := range []struct {
		from, to string
		d        *nodestatus.Document
		want     string // of --to, or in the error
	}{
		{v4, "svc/web:http", dual, "10.96.0.10:80/tcp"},
		{v6, "svc/web:http", dual, "[fd00::a]:80/tcp"},
		{v4, "service/web:80", dual, "10.96.0.10:80/tcp"},
		{v6, "services/shop/web:80/tcp", dual, "[fd00::a]:80/tcp"},
		{v4, "svc/web:dns-udp", dual, "10.96.0.10:53/udp"},
		{v6, "svc/web:53/sctp", dual, "[fd00::a]:53/sctp"},
		{v4, "svc/web:53/UDP", dual, "10.96.0.10:53/udp"},
		{v4, "svc/web:53", dual, "several such ports of Service shop/web: choose one of :53/tcp (dns-tcp), :53/udp (dns-udp), :53/sctp (dns-sctp)"},
		{v4, "svc/web", dual, "several such ports"},
		{v4, "svc/web:81", dual, `no port "81" of Service shop/web; it has `},
		{v4, "svc/web:missing", dual, `no port "missing"`},
		{v6, "svc/web:http", named(model.IPv4), "no IPv6 port of Service shop/web, as the client's, is programmed"},
		{v4, "svc/web:http", &nodestatus.Document{}, "kube-vmap serves no Service shop/web"},
		{v4, "svc/", dual, "write svc/[NAMESPACE/]NAME"},
		{v4, "svc/a/b/c", dual, "write svc/[NAMESPACE/]NAME"},
		{v4, "pod/web-0:80", dual, "kubectl vmap explain"},
		{"pod/cart", "10.96.0.10:80", dual, "--from: "},
		{"svc/cart", "10.96.0.10:80", dual, "as the destination"},
		{"nonsense", "svc/web:80", dual, "--from: "},
		{v4, "10.96.0.10:80/udp", nil, "10.96.0.10:80/udp"},
		{v4, "web:80", nil, `"web:80" has no kind`},
	} {
		o := Options{From: test.from, To: test.to, Namespace: "shop"}
		err := o.resolve(t.Context(), func(_ context.Context, q nodestatus.Query) (*nodestatus.Document, error) {
			if test.d == nil || q != (nodestatus.Query{Namespace: "shop", Name: "web", Brief: true}) {
				return nil, fmt.Errorf("asked for %+v", q)
			}
			return test.d, nil
		})
		got := o.To
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || err == nil && got != test.want {
			t.Errorf("from %s to %s: got %q, want %q", test.from, test.to, got, test.want)
		}
	}
	o := Options{From: v4, To: "svc/web:80", Namespace: "shop"}
	err := o.resolve(t.Context(), func(context.Context, nodestatus.Query) (*nodestatus.Document, error) {
		return nil, client.ErrNotRunning
	})
	if err == nil || !strings.Contains(err.Error(), "only addresses are known") {
		t.Errorf("without a process: %v", err)
	}
}

func TestPacketsAreArguments(t *testing.T) {
	o := Options{Packets: []string{"10.244.1.7,10.96.0.10:53/udp", "[fd00::7]:40000,[fd00::a]:53/sctp"}}
	list, err := o.packets()
	if err != nil || len(list) != 2 || list[0].String() == list[1].String() || list[1].FromPort != 40000 {
		t.Errorf("%v, %v", list, err)
	}
	for _, wrong := range []string{"foo", "10.244.1.7", "10.244.1.7,fd00::1", strings.Repeat("a", 60<<10), strings.Repeat("a", 60<<10) + ",10.96.0.10:53"} {
		o.Packets = []string{wrong}
		if _, err := o.packets(); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40s: %.500v", wrong, err)
		}
	}
	if err := (&Options{Observe: 99 * time.Hour}).check(); err == nil {
		t.Error("it observes for 99 hours")
	}
}
