package explain

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-vmap/cmd/inspect/nodestatus"
	"kube-vmap/model"
)

// nodePortOf adds where a node port is served, or over what, if not as requested.
func (h *hinter) nodePortOf(s *nodestatus.Service) {
	found, exact := map[string]bool{}, false // by protocol
	for i := range s.Ports {
		port := &s.Ports[i]
		has := func(f nodestatus.Frontend) bool { return f.Address == "" && f.Port == h.packet.To.Port() }
		if port.Family == h.packet.Family().String() && slices.ContainsFunc(port.Frontends, has) {
			found[strings.ToLower(port.Protocol)] = true
			exact = exact || h.hasProtocol(port)
		}
	}
	at := slices.DeleteFunc(slices.Clone(h.document.NodeAddresses), func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err != nil || model.FamilyOf(a) != h.packet.Family()
	})
	for _, p := range slices.Sorted(maps.Keys(found)) {
		if exact && p != h.packet.Protocol.String() {
			continue // the requested protocol is served at other addresses
		}
		h.add("%d/%s is the node port of %s/%s, and is served at %s%s", h.packet.To.Port(), p, s.Namespace, s.Name,
			orNowhere(at), h.notServedHere(at))
	}
}

// notServedHere adds that the requested address does not serve node ports; at are those
// that do.
func (h *hinter) notServedHere(at []string) string {
	to := h.packet.To.Addr().String()
	if slices.Contains(at, to) {
		return ""
	}
	return "; " + to + " serves no node ports"
}

func orNowhere(at []string) string {
	if len(at) == 0 {
		return "no address of this family"
	}
	return strings.Join(at, ", ")
}
