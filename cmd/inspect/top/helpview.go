package top

import "strings"

// meaning says what the columns are.
var meaning = []string{
	"CONN/S       new connections in a second, since the numbers before",
	"ACTIVE       connections that are open now; of UDP, flows that had packets lately",
	"CONNECTIONS  connections so far",
	"ENDPOINTS    addresses that get connections / in EndpointSlices",
	"STATUS       a ! is before what is wrong; kube-vmap get and explain say more",
	"",
	"The selected row stays selected wherever it goes; at the top, the first place is.",
	"In one Service, a connection is counted at its frontend and at its endpoint.",
}

// helpView is in the place of the rows, and as high.
func (m *model) helpView() string {
	h := m.help
	h.SetWidth(m.width)
	lines := append([]string{""}, strings.Split(h.FullHelpView(m.keys.FullHelp()), "\n")...)
	lines = append(append(lines, ""), meaning...)
	for i := range lines {
		lines[i] = m.line(m.style.plain, lines[i])
	}
	room := max(1, m.height-fixedLines+1)
	for len(lines) < room {
		lines = append(lines, "")
	}
	return strings.Join(lines[:room], "\n")
}
