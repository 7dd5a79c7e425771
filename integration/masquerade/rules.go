package masquerade

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"kube-vmap/integration/lab"
	"kube-vmap/model"
	"kube-vmap/nft"
)

// Forward makes a node send what comes to an address, over all protocols, to an endpoint, as
// the shortest Service proxy. The statement masquerades; with an empty one the endpoint sees
// the client.
func Forward(node *lab.Host, at, endpoint netip.AddrPort, statement string) error {
	family := nft.FamilyName(model.FamilyOf(at.Addr()))
	if statement != "" {
		statement = "ct status dnat " + statement
	}
	to := endpoint.String() // an IPv6 address in brackets
	cmd := node.Command(context.Background(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`add table %[1]s forward
		delete table %[1]s forward
		table %[1]s forward {
			chain pre {
				type nat hook prerouting priority dstnat
				%[1]s daddr %[2]s meta l4proto tcp tcp dport %[3]d dnat to %[4]s
				%[1]s daddr %[2]s meta l4proto udp udp dport %[3]d dnat to %[4]s
				%[1]s daddr %[2]s meta l4proto sctp sctp dport %[3]d dnat to %[4]s
			}
			chain post {
				type nat hook postrouting priority srcnat
				%[5]s
			}
		}`, family, at.Addr(), at.Port(), to, statement))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("program %s: %w\n%s", node.Name, err, out)
	}
	return nil
}
