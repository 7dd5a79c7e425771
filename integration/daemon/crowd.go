package daemon

import (
	"net/netip"
	"os"
	"testing"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
)

// crowdRanges are the addresses of the crowd outside.
var crowdRanges = ranges("198.18.0.0/16", "2001:db8:c::/112")

// Crowd makes the host outside many clients: it may ask from every address of
// [Client].
func Crowd(t testing.TB, l *lab.Lab) {
	t.Helper()
	// Of a range of own addresses, IPv6 lets nobody use one without this.
	err := l.Outside.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range model.Families {
		// A whole range of own addresses, in one route.
		out, err := l.Outside.Command(t.Context(), "ip", "route", "add", "local", crowdRanges[f].String(), "dev", "lo").CombinedOutput()
		if err != nil {
			t.Fatalf("give the host outside more addresses: %v\n%s", err, out)
		}
	}
}

// Client is the n-th address of the crowd, from 0 to 65534.
func Client(f model.Family, n int) netip.Addr { return nth(crowdRanges[f], n+1) }
