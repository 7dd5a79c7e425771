package resolve

import (
	"strings"
	"testing"
)

func TestPortsAreSelected(t *testing.T) {
	r := newResolver()
	for text, want := range map[string]string{
		"svc/web":              "dns 53/udp, dns-tcp 53/tcp, http 80/tcp, sig 2905/sctp",
		"svc/shop/web:http":    "http 80/tcp",
		"service/web:80":       "http 80/tcp",
		"svc/web:53":           "dns 53/udp, dns-tcp 53/tcp",
		"svc/web:53/UDP":       "dns 53/udp",
		"svc/web:2905/sctp":    "sig 2905/sctp",
		"svc/one":              "http 80/tcp",
		"pod/cart-0:http":      "http 8080/tcp",
		"pod/cart-0:9000/sctp": "9000/sctp", // not declared
		"deploy/cart:dns":      "dns 53/udp",
		"node/node-1:30080":    "30080/tcp",
		"10.96.0.10:53/udp":    "53/udp",
		"[fd00:10:96::a]:53":   "53/tcp",
	} {
		d, err := r.Destination(t.Context(), text)
		if got := strings.Join(portTexts(d.Ports), ", "); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestErrorsOfDestinationsSayWhatExists(t *testing.T) {
	r := newResolver()
	for text, want := range map[string]string{
		"svc/wbe":                       "there is no service wbe in namespace shop; kubectl get services -A lists them",
		"svc/web:81":                    "service shop/web has no port 81; it has http 80/tcp, dns 53/udp, dns-tcp 53/tcp, sig 2905/sctp",
		"svc/web:80/udp":                "has no port 80/udp; it has http 80/tcp",
		"svc/web:htpt":                  "has no port htpt",
		"svc/web:8080":                  "8080 is spec.ports[].targetPort of http 80/tcp: clients use 80",
		"svc/web:30080":                 "write --to node/NAME:30080",
		"svc/web:80/icmp":               "tcp, udp or sctp",
		"svc/many":                      "has 8 ports, name one",
		"svc/headless":                  "spec.clusterIP: None): DNS answers with the addresses of its pods, and no proxy is involved; name a pod: --to pod/NAME:PORT",
		"svc/pending":                   "no address yet",
		"svc/alias":                     "spec.type: ExternalName): DNS answers with web.example",
		"node/node-1":                   "name a port",
		"10.96.0.10":                    "name a port",
		"web.shop.svc.cluster.local:80": "write svc/shop/web:80",
		"http://web.shop.svc/path?ok":   "write svc/shop/web",
		"web.shop:80":                   "has no kind",
	} {
		if _, err := r.Destination(t.Context(), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
