package screen

import "charm.land/bubbles/v2/key"

// keys are the key bindings.
type keys struct {
	up, down, pageUp, pageDown, home, end key.Binding
	sort, column, reverse, search         key.Binding
	enter, back, pause, help, quit        key.Binding
	interrupt, suspend                    key.Binding
}

func newKeys() keys {
	bind := func(shown, does string, names ...string) key.Binding {
		return key.NewBinding(key.WithKeys(names...), key.WithHelp(shown, does))
	}
	return keys{
		up:        bind("↑/k", "up", "up", "k"),
		down:      bind("↓/j", "down", "down", "j"),
		pageUp:    bind("PgUp", "page up", "pgup", "ctrl+b"),
		pageDown:  bind("PgDn", "page down", "pgdown", "ctrl+f", "space"),
		home:      bind("Home/g", "first", "home", "g"),
		end:       bind("End/G", "last", "end", "G"),
		sort:      bind("s", "sort by the next column", "s"),
		column:    bind("1..8", "sort by a column", "1", "2", "3", "4", "5", "6", "7", "8"),
		reverse:   bind("r", "reverse", "r"),
		search:    bind("/", "search", "/"),
		enter:     bind("Enter", "one Service", "enter"),
		back:      bind("Esc", "back", "esc"),
		pause:     bind("p", "pause", "p"),
		help:      bind("?", "help", "?"),
		quit:      bind("q", "quit", "q"),
		interrupt: bind("Ctrl+C", "quit", "ctrl+c"),
		suspend:   bind("Ctrl+Z", "to the shell", "ctrl+z"),
	}
}

// ShortHelp returns the keys of the last line, the most important first.
func (k keys) ShortHelp() []key.Binding {
	return []key.Binding{k.quit, k.help, k.enter, k.back, k.search, k.sort, k.reverse, k.pause}
}

// FullHelp returns all keys, in columns.
func (k keys) FullHelp() [][]key.Binding {
	return [][]key.Binding{
		{k.up, k.down, k.pageUp, k.pageDown, k.home, k.end},
		{k.enter, k.back, k.search, k.sort, k.column, k.reverse},
		{k.pause, k.help, k.quit, k.suspend},
	}
}
