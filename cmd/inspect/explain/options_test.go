package explain

import (
	"strings"
	"testing"

	"kube-vmap/model"
)

func TestPacketIsParsed(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"10.244.1.7", "10.96.0.10:53/udp", "10.244.1.7 -> 10.96.0.10:53/udp"},
		{"10.244.1.7:40000", "10.96.0.10:53/SCTP", "10.244.1.7:40000 -> 10.96.0.10:53/sctp"},
		{"fd00::7", "[fd00::a]:53", "fd00::7 -> [fd00::a]:53/tcp"},
		{"[fd00::7]", "[fd00::a]:53/udp", "fd00::7 -> [fd00::a]:53/udp"},
		{"[fd00::7]:40000", "[fd00::a]:53/udp", "[fd00::7]:40000 -> [fd00::a]:53/udp"},
		{"::ffff:10.244.1.7", "10.96.0.10:53", "10.244.1.7 -> 10.96.0.10:53/tcp"},
	} {
		p, err := Options{From: tc.from, To: tc.to}.Packet()
		if err != nil || p.String() != tc.want {
			t.Errorf("%s, %s: %s, %v, want %s", tc.from, tc.to, p, err, tc.want)
		}
	}
}

func TestInvalidPacketErrorsShowTheSyntax(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"", "10.96.0.10:53", "both must be given"},
		{"10.244.1.7", "", "both must be given"},
		{"web-0", "10.96.0.10:53", "kubectl get pod"},
		{"fe80::1%eth0", "[fd00::a]:53", "link-local"},
		{"10.244.1.7", "10.96.0.10", "write 10.96.0.10:80"},
		{"10.244.1.7", "10.96.0.10:0", "write 10.96.0.10:53/udp"},
		{"fd00::7", "fd00::a", "write [fd00::a]:80"},
		{"fd00::7", "fd00::a:53/udp", "is ambiguous: write [fd00::a]:53/udp"},
		{"fd00::7", "fd00::1:80", "write [fd00::1]:80"},
		{"fd00::7", "fd00:1:2:3:4:5:6:7:80", "write [fd00:1:2:3:4:5:6:7]:80"},
		{"fd00::7", "fd00:1:2:3:4:5:6:7", "has no port: write [fd00:1:2:3:4:5:6:7]:80"},
		{"fd00::7", "fd00::80", "has no port: write [fd00::80]:80"},
		{"fd00::7", "fd00::1:a/sctp", "has no port: write [fd00::1:a]:80/sctp"},
		{"fd00::7", "[fd00::a]", "write [fd00::a]:80"},
		{"10.244.1.7", "dns:53", "is a name"},
		{"10.244.1.7", "10.96.0.10:53/icmp", "tcp, udp or sctp"},
		{"10.244.1.7", "[fd00::a]:53", "of one family"},
	} {
		_, err := Options{From: tc.from, To: tc.to}.Packet()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s, %s: %v, want %q", tc.from, tc.to, err, tc.want)
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
