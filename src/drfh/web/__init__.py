"""The explorer and the live view: pages in a browser. NiceGUI loads when one is served."""
