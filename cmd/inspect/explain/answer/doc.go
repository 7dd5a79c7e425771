// Package answer is the answer of explain about a packet, as a value and as text, JSON and
// YAML. Programs on other machines and platforms read it, too, so this package imports
// nothing of the node.
package answer
