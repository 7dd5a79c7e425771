package legacy

import (
	"context"
	"log/slog"
)

// Remove removes kube-proxy's rules and chains from the legacy backend of iptables in the
// calling thread's network namespace, and returns what it removed, for a log. If it has
// chains there but the programs are not installed, Remove logs a warning with the manual steps,
// and returns no error.
//
// Call it after the first commit of our own rules, and before Remove of package kubeproxy.
func Remove(ctx context.Context, log *slog.Logger) (removed []string, err error) {
	return remove(ctx, kernel, log)
}

func remove(ctx context.Context, from source, log *slog.Logger) (removed []string, err error) {
	removed, unknown, err := change(ctx, from, "remove kube-proxy's chains from", (*saved).remove)
	if len(unknown) > 0 {
		warn(log, unknown)
	}
	return removed, err
}

// remove returns the commands that execute the plan of the table, and their description.
func (t *saved) remove() (commands []string, what string) {
	p := t.Plan()
	for _, i := range p.Unhook {
		commands = append(commands, t.deleteRule(i))
	}
	for _, name := range p.Empty {
		commands = append(commands, "-F "+name)
	}
	for _, name := range p.Delete {
		commands = append(commands, "-X "+name)
	}
	return commands, p.String()
}

// warn logs the manual steps for tables with rules that only the programs can remove.
func warn(log *slog.Logger, tables []string) {
	log.Warn("kube-proxy has chains in legacy iptables tables, and iptables-legacy is not installed: "+
		"remove them manually, or restart the node",
		"tables", tables,
		"look", "iptables-legacy-save | grep KUBE-SERVICES; ip6tables-legacy-save | grep KUBE-SERVICES",
		"remove", "kube-proxy --cleanup (on the node, or privileged and with the host's network in kube-proxy's image)")
}
