"""Path of a spec from the user's file to the one that a lineage runs by: the changes that apply or are refused."""

DECIDES_NO_ROW = "it judges specs and programs, and a lineage records the ones it runs by"
