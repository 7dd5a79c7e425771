package screen

import "strings"

// columnHelp explains the columns.
var columnHelp = []string{
	"CONN/S       new connections per second, since the last numbers",
	"ACTIVE       connections that are open now; UDP: flows with recent packets",
	"CONNECTIONS  connections so far",
	"ENDPOINTS    addresses that get connections / in EndpointSlices",
	"STATUS       ! marks problems; kube-vmap get and explain show more",
	"",
	"The selected row stays selected when it moves; at the top, the first row is.",
	"In one Service, a connection is counted at its frontend and at its endpoint.",
}

// helpView returns the help, as high as the rows that it replaces.
func (m *model) helpView() string {
	h := m.help
	h.SetWidth(m.width)
	lines := append([]string{""}, strings.Split(h.FullHelpView(m.keys.FullHelp()), "\n")...)
	lines = append(append(lines, ""), columnHelp...)
	for i := range lines {
		lines[i] = m.line(m.style.plain, lines[i])
	}
	room := max(1, m.height-fixedLines+1)
	for len(lines) < room {
		lines = append(lines, "")
	}
	return strings.Join(lines[:room], "\n")
}
