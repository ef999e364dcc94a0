"""The services of the testbed, one file each: a new one is its file, and its line here."""

from tierbench.testbed.services.conditions import CONDITIONS
from tierbench.testbed.services.filesystem import MOUNTS, SERVERS
from tierbench.testbed.services.htcondor import HTCONDOR
from tierbench.testbed.services.kerberos import KERBEROS
from tierbench.testbed.services.xrootd import XROOTD

SERVICES = (HTCONDOR, XROOTD, KERBEROS, SERVERS, MOUNTS, CONDITIONS)
